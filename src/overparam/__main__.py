"""`python -m overparam …`: the command line, for those whose scripts folder is not on their path."""

from overparam.cli import main

if __name__ == "__main__":
    main()

"""`python -m overparam …`: the command line, for those whose scripts folder is not on their path."""

try:
    from overparam.cli import main
except KeyboardInterrupt:
    import sys

    sys.stderr.write("overparam: stopped\n")
    sys.exit(130)

if __name__ == "__main__":
    main()

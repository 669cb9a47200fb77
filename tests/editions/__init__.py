"""Two editions of overparam side by side: every command of the documents, run, recorded and compared.

    python -m tests.editions record new.json.xz
    python -m tests.editions compare tests/editions/first_edition.json.xz new.json.xz

The record of the first edition (version 0.1.0) stays beside these files. A change that should
change no number is checked by recording again and comparing: equal bits, or a reason in `explained.py`.
"""

"""``python -m cscodec``: the command line."""

from cscodec.cli import main

if __name__ == "__main__":
    main()

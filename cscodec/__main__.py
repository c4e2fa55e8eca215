"""``cscodec``, and ``python -m cscodec``: the command line."""

from cscodec.signals import leave_on_signals


def main() -> None:
    """Run the command line and exit; Ctrl-C ends it also while it is being imported."""
    leave_on_signals()
    from cscodec.cli import main

    main()


if __name__ == "__main__":
    main()

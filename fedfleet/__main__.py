"""`python -m fedfleet` is the command `fedfleet`."""

from fedfleet.app.cli.main import main

if __name__ == "__main__":
    main()

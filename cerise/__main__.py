"""`python -m cerise` is `cerise`."""

from cerise.cli.main import main

if __name__ == "__main__":
    main()

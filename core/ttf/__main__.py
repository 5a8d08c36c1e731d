"""`python -m ttf` is `ttf`."""

from ttf.cli import main

if __name__ == "__main__":
    main()

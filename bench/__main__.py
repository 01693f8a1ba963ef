"""`python -m bench`; what it does is in `bench.suite`, where a process that it starts finds it too."""

from bench.suite import main

if __name__ == "__main__":
    main()

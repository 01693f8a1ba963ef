"""`python -m bench`. The code is in `bench.suite`, where the processes that it starts can import it."""

from bench.suite import main

if __name__ == "__main__":
    main()

from fedfleet_device import main

if __name__ == "__main__":
    main()

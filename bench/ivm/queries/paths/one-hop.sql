SELECT s, o FROM {link}

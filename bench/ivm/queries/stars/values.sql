SELECT s, o FROM {colour} WHERE o IN ('<http://ivm.example/colour/1>', '<http://ivm.example/colour/2>')

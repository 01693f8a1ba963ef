SELECT s, o FROM {weight} WHERE n > 500 AND n < 700

"""A watch party on Solid pods: the room and the message boxes of Incremunica's use case."""

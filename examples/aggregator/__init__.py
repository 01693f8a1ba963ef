"""Three pods, a web agent in front of each, and one aggregator over them: Figure 1 of the Solid paper."""

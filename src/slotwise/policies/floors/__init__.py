"""How a policy keeps floors: queues, prices, deficits, and the floor program on bounds or draws."""

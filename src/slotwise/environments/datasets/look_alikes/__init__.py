"""Look-alikes: data sets drawn from written recipes."""

"""The B-DES model: instances, schedules, rounds, and compiling the loops over them."""

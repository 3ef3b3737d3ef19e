/* A known schedule on a B-DES instance, written down pull by pull: usage: schedule K T seed */
#include "common.h"

int main(int argc, char **argv) {
  set_up(argc, argv);
  int64_t *arms = malloc(horizon * sizeof *arms);
  double *rewards = malloc(horizon * sizeof *rewards), *means = malloc(horizon * sizeof *means);
  for (long t = 0; t < horizon; t++) {
    arms[t] = (int64_t)(uniform() * n_arms);
    rewards[t] = means[t] = 0.0; /* touch the pages before the clock starts */
  }
  double total = 0.0, best = INFINITY;
  for (int repeat = 0; repeat < 5; repeat++) {
    double q = 1.0, begin = now();
    for (long t = 0; t < horizon; t++) {
      double mean = r[arms[t]] * q;
      means[t] = mean;
      rewards[t] = uniform() < mean ? 1.0 : 0.0;
      q += lam * (b[arms[t]] - q);
    }
    double ns = now() - begin;
    best = ns < best ? ns : best;
    for (long t = 0; t < horizon; t++) total += rewards[t];
  }
  report(best, total);
  return 0;
}

/* A known schedule, written down pull by pull: the limit that one block is measured against.
 *
 * Usage: schedule K T seed; prints nanoseconds a pull (best of five), total reward and mean.
 * Build: gcc -O3 -o schedule schedule.c -lm
 */
#include "bandit.h"

int main(int argc, char **argv) {
  World w = world_from(argc, argv);
  int64_t *arms = malloc(w.horizon * sizeof *arms);
  double *rewards = malloc(w.horizon * sizeof *rewards), *means = malloc(w.horizon * sizeof *means);
  for (long t = 0; t < w.horizon; t++) {
    arms[t] = (int64_t)(uniform() * w.n_arms);
    rewards[t] = means[t] = 0.0; /* touch the pages before the clock starts */
  }
  double best = INFINITY;
  for (int repeat = 0; repeat < 5; repeat++) {
    double q = 1.0, begin = seconds();
    for (long t = 0; t < w.horizon; t++) {
      double mean = w.r[arms[t]] * q;
      means[t] = mean;
      rewards[t] = uniform() < mean ? 1.0 : 0.0;
      q += w.lam * (w.b[arms[t]] - q);
    }
    best = fmin(best, seconds() - begin);
  }
  for (long t = 0; t < w.horizon; t++) {
    w.total_reward += rewards[t];
    w.total_mean += means[t];
  }
  report(&w, best);
  return 0;
}

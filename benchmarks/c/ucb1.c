/* UCB1, the whole loop in C: the limit that the fused loop is measured against.
 *
 * Usage: ucb1 K T seed; prints nanoseconds a pull, total reward, total expected reward.
 * Build: gcc -O3 -o ucb1 ucb1.c -lm
 */
#include "bandit.h"

int main(int argc, char **argv) {
  World w = world_from(argc, argv);
  double *plays = zeros(w.n_arms), *sums = zeros(w.n_arms);
  double *means = zeros(w.n_arms), *widths = zeros(w.n_arms);
  double begin = seconds();
  for (long t = 0; t < w.horizon; t++) {
    int arm = 0;
    if (t < w.n_arms) {
      arm = (int)t;
    } else {
      double radius = sqrt(2.0 * log((double)t));
      double highest = means[0] + radius * widths[0];
      for (int i = 1; i < w.n_arms; i++) {
        double bound = means[i] + radius * widths[i];
        if (bound > highest) {
          highest = bound;
          arm = i;
        }
      }
    }
    double reward = play_round(&w, arm);
    plays[arm] += 1.0;
    sums[arm] += reward;
    means[arm] = sums[arm] / plays[arm];
    widths[arm] = 1.0 / sqrt(plays[arm]);
  }
  report(&w, seconds() - begin);
  return 0;
}

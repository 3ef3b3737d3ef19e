/* UCB1, the whole loop in C: the limit that the fused loop is measured against.
 *
 * Indices are cached: while the leader's index lies above a bound on all others, which have only
 * grown with the logarithm of t, no other is computed. The choices are those of the plain loop.
 *
 * Usage: ucb1 K T seed; prints nanoseconds a pull, total reward, total expected reward.
 * Build: gcc -O3 -o ucb1 ucb1.c -lm
 */
#include "bandit.h"

enum { STRETCH = 64 };

static double radius_at(long t) { return sqrt(2.0 * log((double)t)); }

int main(int argc, char **argv) {
  World w = world_from(argc, argv);
  double *plays = zeros(w.n_arms), *sums = zeros(w.n_arms);
  double *means = zeros(w.n_arms), *widths = zeros(w.n_arms);
  double rest = INFINITY, widest = 0.0, known_at = 0.0, low = 0.0, high = 0.0;
  long until = 0;
  int leader = 0;
  double begin = seconds();
  for (long t = 0; t < w.horizon; t++) {
    int arm = leader;
    if (t < w.n_arms) {
      arm = (int)t;
    } else {
      if (t >= until) {
        until = t + STRETCH;
        low = radius_at(t);
        high = radius_at(until);
      }
      if (!(means[leader] + low * widths[leader] > rest + (high - known_at) * widest)) {
        known_at = radius_at(t);
        double highest = -INFINITY;
        rest = -INFINITY;
        for (int i = 0; i < w.n_arms; i++) {
          double bound = means[i] + known_at * widths[i];
          if (bound > highest) {
            rest = highest;
            highest = bound;
            leader = i;
          } else if (bound > rest) {
            rest = bound;
          }
        }
        widest = 0.0;
        for (int i = 0; i < w.n_arms; i++)
          if (i != leader) widest = fmax(widest, widths[i]);
        arm = leader;
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

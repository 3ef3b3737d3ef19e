/* EXP3, the whole loop in C: the limit that the fused loop is measured against.
 *
 * Walks the arms' probabilities anew in every round, as the algorithm is written; the fused
 * loop lays them out only after a reward.
 *
 * Usage: exp3 K T seed; prints nanoseconds a pull, total reward, total expected reward.
 * Build: gcc -O3 -o exp3 exp3.c -lm
 */
#include "bandit.h"

int main(int argc, char **argv) {
  World w = world_from(argc, argv);
  int n = w.n_arms;
  double *logs = zeros(n), *weights = zeros(n);
  double gamma = fmin(1.0, sqrt(n * log(n) / ((exp(1.0) - 1.0) * (double)w.horizon)));
  double floor = gamma / n, total = n, shift = 0.0, share = (1.0 - gamma) / n;
  long changes = 0;
  for (int i = 0; i < n; i++) weights[i] = 1.0;
  double begin = seconds();
  for (long t = 0; t < w.horizon; t++) {
    double u = uniform(), reached = 0.0;
    int arm = 0;
    for (; arm < n - 1; arm++) {
      reached += share * weights[arm] + floor;
      if (u < reached) break;
    }
    double reward = play_round(&w, arm);
    if (reward > 0.0) {
      changes++;
      logs[arm] += floor * reward / (share * weights[arm] + floor);
      double exponent = logs[arm] - shift, weight = exp(exponent);
      total += weight - weights[arm];
      share = (1.0 - gamma) / total;
      weights[arm] = weight;
      if (exponent > 50.0 || changes % 1024 == 0) {
        shift = logs[0];
        for (int i = 1; i < n; i++) shift = fmax(shift, logs[i]);
        total = 0.0;
        for (int i = 0; i < n; i++) total += weights[i] = exp(logs[i] - shift);
        share = (1.0 - gamma) / total;
      }
    }
  }
  report(&w, seconds() - begin);
  return 0;
}

/* EXP3.P, the whole loop in C: the limit that the fused loop is measured against.
 *
 * Usage: exp3p K T seed; prints nanoseconds a pull, total reward, total expected reward.
 * Build: gcc -O3 -o exp3p exp3p.c -lm
 */
#include "bandit.h"

int main(int argc, char **argv) {
  World w = world_from(argc, argv);
  int n = w.n_arms;
  double *logs = zeros(n), *p = zeros(n), rounds = (double)n * (double)w.horizon;
  double eta = 0.95 * sqrt(log(n) / rounds), beta = sqrt((log(n) - log(0.05)) / rounds);
  double gamma = fmin(1.0, 1.05 * sqrt(n * log(n) / (double)w.horizon));
  double step = eta * beta, least = gamma / n;
  for (int i = 0; i < n; i++) p[i] = 1.0 / n;
  double begin = seconds();
  for (long t = 0; t < w.horizon; t++) {
    double u = uniform(), reached = 0.0;
    int arm = 0;
    for (; arm < n - 1; arm++) {
      reached += p[arm];
      if (u < reached) break;
    }
    double reward = play_round(&w, arm);
    logs[arm] += eta * (reward / p[arm]);
    double highest = -INFINITY, total = 0.0;
    for (int i = 0; i < n; i++) {
      logs[i] += step / p[i];
      highest = logs[i] > highest ? logs[i] : highest;
    }
    for (int i = 0; i < n; i++) {
      logs[i] -= highest;
      p[i] = exp(logs[i]);
      total += p[i];
    }
    double share = (1.0 - gamma) / total;
    for (int i = 0; i < n; i++) p[i] = share * p[i] + least;
  }
  report(&w, seconds() - begin);
  return 0;
}

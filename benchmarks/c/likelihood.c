/* Log-likelihood, score and Fisher information of a log: what one sweep is measured against.
 *
 * Usage: likelihood K T seed; prints nanoseconds a row (best of five), and two sums.
 * Build: gcc -O3 -o likelihood likelihood.c -lm
 */
#include "bandit.h"

int main(int argc, char **argv) {
  World w = world_from(argc, argv);
  int k = w.n_arms, n = k + 2;
  int32_t *arms = malloc(w.horizon * sizeof *arms);
  int8_t *rewards = malloc(w.horizon);
  for (long t = 0; t < w.horizon; t++) {
    arms[t] = (int32_t)(uniform() * k);
    rewards[t] = (int8_t)play_round(&w, arms[t]);
  }
  double *d = zeros(n), *rr = zeros(k), *of_r = zeros(k), *of_state = zeros(n);
  double *crossed = zeros(k * n), *inner = zeros(n * n);
  double best = INFINITY, total = 0.0;
  for (int repeat = 0; repeat < 5; repeat++) {
    double q = 1.0, begin = seconds();
    for (int j = 0; j < n; j++) d[j] = j == k + 1;
    for (long t = 0; t < w.horizon; t++) {
      int arm = arms[t];
      double pays = w.r[arm], mu = fmin(fmax(pays * q, 1e-10), 1.0 - 1e-10);
      total += log(rewards[t] ? mu : 1.0 - mu);
      double weight = 1.0 / (mu * (1.0 - mu)), pull = (rewards[t] - mu) * weight;
      of_r[arm] += pull * q;
      rr[arm] += weight * q * q;
      for (int j = 0; j < n; j++) {
        of_state[j] += pull * pays * d[j];
        crossed[arm * n + j] += weight * q * pays * d[j];
      }
      for (int i = 0; i < n; i++) {
        double x = weight * pays * pays * d[i];
        for (int j = 0; j < n; j++) inner[i * n + j] += x * d[j];
      }
      for (int j = 0; j < n; j++) {
        double x = d[j] * (1.0 - w.lam);
        d[j] = fabs(x) > 1e-100 ? x : 0.0;
      }
      double change = w.b[arm] - q;
      d[arm] += w.lam;
      d[k] += change;
      q += w.lam * change;
    }
    best = fmin(best, seconds() - begin);
  }
  w.total_reward = total;
  w.total_mean = inner[0] + crossed[0] + of_r[0] + rr[0] + of_state[0];
  report(&w, best);
  return 0;
}

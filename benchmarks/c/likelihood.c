/* Log-likelihood, score and Fisher information of a log: what one sweep is measured against.
 *
 * As fast as we can write it: the triangle of the information only, eight rows at once, and one
 * logarithm and one block of divisions for them.
 *
 * Usage: likelihood K T seed; prints nanoseconds a row (best of five), and two sums.
 * Build: gcc -O3 -march=native -ffast-math -o likelihood likelihood.c -lm
 */
#include "bandit.h"

enum { ROWS = 8, MOST = 128 };

int main(int argc, char **argv) {
  World w = world_from(argc, argv);
  int k = w.n_arms, n = k + 2;
  int32_t *arms = malloc(w.horizon * sizeof *arms);
  int8_t *rewards = malloc(w.horizon);
  for (long t = 0; t < w.horizon; t++) {
    arms[t] = (int32_t)(uniform() * k);
    rewards[t] = (int8_t)play_round(&w, arms[t]);
  }
  double *rr = zeros(k), *of_r = zeros(k), *of_state = zeros(n);
  double *crossed = zeros(k * n), *inner = zeros(n * n);
  static double d[MOST], rows[ROWS][MOST];
  double best = INFINITY, total = 0.0, kept = 1.0 - w.lam;
  for (int repeat = 0; repeat < 5; repeat++) {
    double q = 1.0, product = 1.0, begin = seconds();
    for (int j = 0; j < n; j++) d[j] = j == k + 1;
    for (long t = 0; t + ROWS <= w.horizon; t += ROWS) {
      for (int s = 0; s < ROWS; s++) {
        int arm = arms[t + s], paid = rewards[t + s];
        double pays = w.r[arm], mu = fmin(fmax(pays * q, 1e-10), 1.0 - 1e-10);
        product *= paid ? mu : 1.0 - mu;
        double weight = 1.0 / (mu * (1.0 - mu)), pull = (paid - mu) * weight;
        of_r[arm] += pull * q;
        rr[arm] += weight * q * q;
        double by_state = pull * pays, by_both = weight * q * pays, root = sqrt(weight) * pays;
        double *across = crossed + arm * n, *row = rows[s];
        double change = w.b[arm] - q;
        for (int j = 0; j < n; j++) {
          of_state[j] += by_state * d[j];
          across[j] += by_both * d[j];
          row[j] = root * d[j];
          d[j] *= kept;
        }
        d[arm] += w.lam;
        d[k] += change;
        q += w.lam * change;
      }
      for (int j = 0; j < n; j++) d[j] = fabs(d[j]) > 1e-100 ? d[j] : 0.0;
      total += log(product);
      product = 1.0;
      for (int i = 0; i < n; i++) {
        double a[ROWS];
        for (int s = 0; s < ROWS; s++) a[s] = rows[s][i];
        for (int j = 0; j <= i; j++) {
          double sum = 0.0;
          for (int s = 0; s < ROWS; s++) sum += a[s] * rows[s][j];
          inner[i * n + j] += sum;
        }
      }
    }
    best = fmin(best, seconds() - begin);
  }
  w.total_reward = total;
  w.total_mean = inner[0] + crossed[0] + of_r[0] + rr[0] + of_state[0];
  report(&w, best);
  return 0;
}

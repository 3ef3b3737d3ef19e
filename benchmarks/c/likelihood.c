/* Log-likelihood, score and Fisher information of a log: what one sweep is measured against.
 *
 * As fast as we can write it: the triangle of the information only, eight rows at once with one
 * logarithm for them, and arrays padded to eight numbers, so that no loop has a rest.
 *
 * Usage: likelihood K T seed; prints nanoseconds a row (best of five), and two sums.
 * Build: gcc -O3 -march=native -ffast-math -o likelihood likelihood.c -lm
 */
#include "bandit.h"
#include <string.h>

enum { ROWS = 8, LANES = 8, MOST = 128 };

static double *padded(int n) {
  double *found = aligned_alloc(64, (size_t)n * sizeof *found);
  memset(found, 0, (size_t)n * sizeof *found);
  return found;
}


int main(int argc, char **argv) {
  World w = world_from(argc, argv);
  int k = w.n_arms, n = k + 2, m = (n + LANES - 1) / LANES * LANES;
  int32_t *arms = malloc(w.horizon * sizeof *arms);
  int8_t *rewards = malloc(w.horizon);
  for (long t = 0; t < w.horizon; t++) {
    arms[t] = (int32_t)(uniform() * k);
    rewards[t] = (int8_t)play_round(&w, arms[t]);
  }
  double *rr = zeros(k), *of_r = zeros(k), *of_state = padded(m);
  double *crossed = padded(k * m), *inner = padded(n * m);
  static _Alignas(64) double d[MOST], rows[ROWS][MOST];
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
        double *across = crossed + arm * m, *row = rows[s];
        double change = w.b[arm] - q;
        for (int j = 0; j < m; j++) {
          of_state[j] += by_state * d[j];
          across[j] += by_both * d[j];
          row[j] = root * d[j];
          d[j] *= kept;
        }
        d[arm] += w.lam;
        d[k] += change;
        q += w.lam * change;
      }
      for (int j = 0; j < m; j++) d[j] = fabs(d[j]) > 1e-100 ? d[j] : 0.0;
      total += log(product);
      product = 1.0;
      const double *restrict a = rows[0], *restrict b = rows[1], *restrict c = rows[2],
                   *restrict e = rows[3], *restrict f = rows[4], *restrict g = rows[5],
                   *restrict h = rows[6], *restrict l = rows[7];
      for (int i = 0; i < n; i++) {
        double *restrict to = inner + i * m;
        double ai = a[i], bi = b[i], ci = c[i], ei = e[i], fi = f[i], gi = g[i], hi = h[i], li = l[i];
        for (int j = 0; j < (i / LANES + 1) * LANES; j++)
          to[j] += (ai * a[j] + bi * b[j] + ci * c[j] + ei * e[j]) +
                   (fi * f[j] + gi * g[j] + hi * h[j] + li * l[j]);
      }
    }
    best = fmin(best, seconds() - begin);
  }
  w.total_reward = total;
  w.total_mean = inner[0] + crossed[0] + of_r[0] + rr[0] + of_state[0];
  report(&w, best);
  return 0;
}

/* Arms looked up in a decision table: an even grid over the states, then a few steps.
 *
 * The table has 4 K intervals with starts drawn at random, the states are uniform on [0, 1).
 * Usage: decision_table K T seed; prints nanoseconds a state (best of five).
 * Build: gcc -O3 -o decision_table decision_table.c -lm
 */
#include "bandit.h"

#define GRID 256

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  World w = world_from(argc, argv);
  int n = 4 * w.n_arms;
  double *starts = malloc((size_t)n * sizeof *starts), *states = malloc(w.horizon * sizeof *states);
  int64_t *arms = malloc((size_t)n * sizeof *arms), *out = malloc(w.horizon * sizeof *out);
  int64_t first[GRID];
  starts[0] = 0.0;
  for (int k = 1; k < n; k++) starts[k] = uniform();
  qsort(starts, (size_t)n, sizeof *starts, ascending);
  for (int k = 0; k < n; k++) arms[k] = (int64_t)(uniform() * w.n_arms);
  for (int i = 0, k = 0; i < GRID; i++) {
    while (k + 1 < n && starts[k + 1] <= (double)i / GRID) k++;
    first[i] = k;
  }
  for (long t = 0; t < w.horizon; t++) {
    states[t] = uniform();
    out[t] = 0; /* touch the pages before the clock starts */
  }
  double best = INFINITY;
  for (int repeat = 0; repeat < 5; repeat++) {
    double begin = seconds();
    for (long t = 0; t < w.horizon; t++) {
      double q = states[t];
      int64_t k = first[(int)(q * GRID)];
      while (k + 1 < n && starts[k + 1] <= q) k++;
      out[t] = arms[k];
    }
    best = fmin(best, seconds() - begin);
  }
  for (long t = 0; t < w.horizon; t++) w.total_reward += (double)out[t];
  report(&w, best);
  return 0;
}

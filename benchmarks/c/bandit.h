/* What the C loops share: a B-DES instance, a random generator, a clock.
 *
 * The instance is r[i] = (i + 1)/K, b[i] = 1 - i/K, lam = 0.1, q0 = 1: the better an arm
 * pays now, the lower it drives the state.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t s[4];

static inline uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

/* xoshiro256+ (Blackman, Vigna): its upper 53 bits as a uniform on [0, 1). */
static inline double uniform(void) {
  uint64_t result = s[0] + s[3], t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = rotl(s[3], 45);
  return (double)(result >> 11) * 0x1.0p-53;
}

/* splitmix64, to fill the generator's state from one number. */
static void seed_with(uint64_t x) {
  for (int i = 0; i < 4; i++) {
    uint64_t z = (x += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    s[i] = z ^ (z >> 31);
  }
}

typedef struct {
  int n_arms;
  long horizon;
  double *r, *b;
  double lam, q, total_reward, total_mean;
} World;

static double *zeros(int n) { return calloc((size_t)n, sizeof(double)); }

static World world_from(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s K T seed\n", argv[0]);
    exit(2);
  }
  World w = {.n_arms = atoi(argv[1]), .horizon = atol(argv[2]), .lam = 0.1, .q = 1.0};
  seed_with((uint64_t)atoll(argv[3]));
  w.r = zeros(w.n_arms);
  w.b = zeros(w.n_arms);
  for (int i = 0; i < w.n_arms; i++) {
    w.r[i] = (double)(i + 1) / w.n_arms;
    w.b[i] = 1.0 - (double)i / w.n_arms;
  }
  return w;
}

static inline double play_round(World *w, int arm) {
  double mean = w->r[arm] * w->q;
  double reward = uniform() < mean ? 1.0 : 0.0;
  w->q += w->lam * (w->b[arm] - w->q);
  w->total_reward += reward;
  w->total_mean += mean;
  return reward;
}

/* Of the processor, so that other work on the machine counts less. */
static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The first number is what is measured; the others keep the compiler from skipping work. */
static void report(const World *w, double elapsed) {
  printf("%.3f %.0f %.6f\n", 1e9 * elapsed / (double)w->horizon, w->total_reward, w->total_mean);
}

/* What the C loops share: xoshiro256+ (Blackman, Vigna), a B-DES instance, a clock. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t s[4];

static uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

/* The upper 53 bits as a uniform on [0, 1). */
static double uniform(void) {
  uint64_t result = s[0] + s[3], t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = rotl(s[3], 45);
  return (double)(result >> 11) * 0x1.0p-53;
}

/* splitmix64 */
static void seed_with(uint64_t x) {
  for (int i = 0; i < 4; i++) {
    uint64_t z = (x += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    s[i] = z ^ (z >> 31);
  }
}

static int n_arms;
static long horizon;
static double *r, *b, lam = 0.1;

/* Reads K T seed from the command line and draws that many arms. */
static void set_up(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s K T seed\n", argv[0]);
    exit(2);
  }
  n_arms = atoi(argv[1]);
  horizon = atol(argv[2]);
  seed_with((uint64_t)atoll(argv[3]));
  r = malloc(n_arms * sizeof *r);
  b = malloc(n_arms * sizeof *b);
  for (int i = 0; i < n_arms; i++) {
    r[i] = uniform();
    b[i] = uniform();
  }
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* Prints nanoseconds a pull, and the total reward so that nothing is optimised away. */
static void report(double ns, double total) {
  printf("%.3f ns a pull, total reward %.0f\n", ns / (double)horizon, total);
}

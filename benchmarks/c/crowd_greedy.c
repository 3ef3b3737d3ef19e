/* Many users and the greedy policy, the whole loop in C: the limit of simulate_crowd.
 *
 * 100,000 users who come at random, each with a state; the arm with the best mean reward over all
 * of them, chosen anew after every 10,000 visits. Sums are kept per arm and per user.
 *
 * Usage: crowd_greedy K T seed; prints nanoseconds a visit, total reward, total expected reward.
 * Build: gcc -O3 -o crowd_greedy crowd_greedy.c -lm
 */
#include "bandit.h"

enum { USERS = 100000, EVERY = 10000, EXPLORE = 100 };

int main(int argc, char **argv) {
  World w = world_from(argc, argv);
  double *states = zeros(USERS), *user_rewards = zeros(USERS), *user_means = zeros(USERS);
  int64_t *user_visits = calloc(USERS, sizeof *user_visits);
  int64_t *numbers = calloc(USERS, sizeof *numbers), n_users = 0;
  double *told = zeros(w.n_arms), *sums = zeros(w.n_arms);
  for (int user = 0; user < USERS; user++) {
    states[user] = 1.0;
    numbers[user] = -1;
    user_visits[user] = 0; /* touch the pages before the clock starts */
    user_rewards[user] = user_means[user] = 0.0;
  }
  int best = 0, arms[EVERY];
  double rewards[EVERY];
  double begin = seconds();
  for (long t = 0; t < w.horizon; t++) {
    int drawn = (int)(uniform() * USERS);
    if (numbers[drawn] < 0) numbers[drawn] = n_users++;
    int64_t user = numbers[drawn];
    int arm = t < EXPLORE * w.n_arms ? (int)(t % w.n_arms) : best;
    double q = states[user], mean = w.r[arm] * q;
    double reward = uniform() < mean ? 1.0 : 0.0;
    states[user] = q + w.lam * (w.b[arm] - q);
    w.total_reward += reward;
    w.total_mean += mean;
    user_visits[user]++;
    user_rewards[user] += reward;
    user_means[user] += mean;
    arms[t % EVERY] = arm;
    rewards[t % EVERY] = reward;
    if (t % EVERY == EVERY - 1) {
      for (int v = 0; v < EVERY; v++) {
        told[arms[v]] += 1.0;
        sums[arms[v]] += rewards[v];
      }
      for (int i = 0; i < w.n_arms; i++)
        if (told[i] > 0 && (told[best] == 0 || sums[i] / told[i] > sums[best] / told[best])) best = i;
    }
  }
  report(&w, seconds() - begin);
  for (int user = 0; user < USERS; user += 1000)
    if (user_visits[user] < 0 || user_rewards[user] < 0 || user_means[user] < 0) return 1;
  return 0;
}

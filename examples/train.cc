// train.cc -- a training loop that may be killed at any moment: train FOLDER [STEPS [EVERY]]. It
// learns a function with a network of two layers and Adam, saves every EVERY steps in the
// background, and goes on where it ended. After SIGTERM it saves the next step and ends. Its last
// line is the same however often it was stopped or killed.
#include <cairn/cairn.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace {

using Vector = std::vector<double>;
constexpr std::size_t kHidden = 16;
constexpr std::size_t kBatch = 32;
constexpr double kRate = 0.01;

// The weights of both layers, one after the other: in, bias, out.
struct State {
  Vector weights = Vector(3 * kHidden), mean = weights, variance = weights;
};

State new_state() {
  State state;
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  for (double& w : state.weights) w = normal(random);
  return state;
}

cairn::Tree tree_of(const State& state) {
  const auto array = [](const Vector& values) {
    return cairn::Array::from(std::span(values), {static_cast<std::int64_t>(values.size())});
  };
  return {{"weights", array(state.weights)},
          {"adam", cairn::Tree{{"mean", array(state.mean)}, {"variance", array(state.variance)}}}};
}

Vector vector_at(const cairn::Tree& tree, std::string_view path) {
  const auto values = tree.at(path).array()->as<double>();
  return {values.begin(), values.end()};
}

State state_of(const cairn::Tree& tree) {
  return {vector_at(tree, "weights"), vector_at(tree, "adam/mean"),
          vector_at(tree, "adam/variance")};
}

// The mean squared error on one batch, which the step determines, and its gradient.
double loss_and_gradient(const Vector& w, std::int64_t step, Vector& gradient) {
  std::mt19937_64 random(static_cast<std::uint64_t>(step));
  std::uniform_real_distribution<double> uniform(-2, 2);
  double loss = 0;
  for (std::size_t i = 0; i < kBatch; ++i) {
    const double x = uniform(random);
    Vector hidden(kHidden);
    double error = -std::sin(x);
    for (std::size_t h = 0; h < kHidden; ++h) {
      hidden[h] = std::tanh(w[h] * x + w[kHidden + h]);
      error += w[2 * kHidden + h] * hidden[h];
    }
    loss += error * error / kBatch;
    for (std::size_t h = 0; h < kHidden; ++h) {
      const double back = 2 * error / kBatch * w[2 * kHidden + h] * (1 - hidden[h] * hidden[h]);
      gradient[h] += back * x;
      gradient[kHidden + h] += back;
      gradient[2 * kHidden + h] += 2 * error / kBatch * hidden[h];
    }
  }
  return loss;
}

// One step of Adam. Returns the loss before it.
double train_step(State& state, std::int64_t step) {
  Vector gradient(state.weights.size());
  const double loss = loss_and_gradient(state.weights, step, gradient);
  const auto t = static_cast<double>(step + 1);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    state.mean[i] = 0.9 * state.mean[i] + 0.1 * gradient[i];
    state.variance[i] = 0.999 * state.variance[i] + 0.001 * gradient[i] * gradient[i];
    state.weights[i] -= kRate * (state.mean[i] / (1 - std::pow(0.9, t))) /
                        (std::sqrt(state.variance[i] / (1 - std::pow(0.999, t))) + 1e-8);
  }
  return loss;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2 || argc > 4) return std::fputs("usage: train FOLDER [STEPS [EVERY]]\n", stderr), 2;
  const std::int64_t steps = argc > 2 ? std::atoll(argv[2]) : 200;

  const cairn::TerminationSignal
      signal;  // a cluster sends SIGTERM before it takes the machine away
  cairn::CheckpointManager manager(argv[1],
                                   {.save_interval_steps = argc > 3 ? std::atoll(argv[3]) : 10,
                                    .is_preempted = signal.preemption_check(),
                                    .max_to_keep = 2});
  State state = new_state();
  std::int64_t step = 0;
  if (const auto last = manager.latest_step()) {
    state = state_of(manager.restore());
    step = *last + 1;
    std::printf("resume after step %lld\n", static_cast<long long>(*last));
    std::fflush(stdout);
  }
  for (; step < steps; ++step) {
    const double loss = train_step(state, step);
    if (step % 50 == 0) std::printf("step %lld: loss %.3g\n", static_cast<long long>(step), loss);
    // Returns once the values are copied; training goes on while they are written.
    manager.save(step, cairn::PyTreeSaveArgs{tree_of(state)});
    if (!manager.reached_preemption()) continue;
    manager.close();
    std::printf("stopped after step %lld\n", static_cast<long long>(step));
    return 0;
  }
  manager.close();
  double sum = 0;
  for (const double w : state.weights) sum += w;
  std::printf("after %lld steps: the weights add up to %.17g\n", static_cast<long long>(steps),
              sum);
} catch (const cairn::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}

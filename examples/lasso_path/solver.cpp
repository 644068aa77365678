// Lasso paths on a growing set of columns, with exact jumps and bounds instead of full passes.
//
// Columns that matter get a slot: a contiguous copy and their row of the Gram matrix. On the slots,
// coordinate descent works on the Gram matrix alone; once signs settle, one Cholesky solve lands on
// the exact solution for those signs. Whether a column outside violates its condition follows from
// its slope: |slope at r| <= |slope at r0| + |column| |r - r0| / n, so most columns are settled by a
// bound and only the rest is computed. X stays in its row-major form for that.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

namespace {

typedef double Four __attribute__((vector_size(32), aligned(8)));

inline Four load(const double *place) {
    Four value;
    std::memcpy(&value, place, sizeof value);
    return value;
}

double dot(const double *a, const double *b, int n) {
    Four first = {0, 0, 0, 0}, second = first, third = first, fourth = first;
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        first += load(a + i) * load(b + i);
        second += load(a + i + 4) * load(b + i + 4);
        third += load(a + i + 8) * load(b + i + 8);
        fourth += load(a + i + 12) * load(b + i + 12);
    }
    const Four all = (first + second) + (third + fourth);
    double sum = (all[0] + all[1]) + (all[2] + all[3]);
    for (; i < n; ++i) sum += a[i] * b[i];
    return sum;
}

inline void add(double *target, double factor, const double *source, int n) {
    for (int i = 0; i < n; ++i) target[i] += factor * source[i];
}

class Path {
  public:
    Path(int n, int p, const double *x, const double *y)
        : n_(n), p_(p), x_(x), y_(y), slope_(p, 0.0), size_(p, 0.0), slot_(p, -1), r_(y, y + n),
          r0_(y, y + n) {
        for (int i = 0; i < n; ++i) {
            const double *row = x + static_cast<std::size_t>(i) * p;
            const double value = y[i];
            for (int j = 0; j < p; ++j) {
                slope_[j] += value * row[j];
                size_[j] += row[j] * row[j];
            }
        }
        for (int j = 0; j < p; ++j) {
            slope_[j] /= n;
            size_[j] = std::sqrt(size_[j]) / n;
        }
        now_ = slope_;
    }

    void solve(double penalty, double next, double *coefficients) {
        // What the strong rule expects to be in at the next penalty is let in already.
        const double watched = std::min(penalty, std::max(2 * next - penalty, 0.0));
        for (int round = 0; round < 200; ++round) {
            on_slots(penalty);
            residual();
            if (!let_in(penalty, watched)) break;
        }
        for (std::size_t s = 0; s < feature_.size(); ++s) coefficients[feature_[s]] = b_[s];
    }

    void expect(double first) {
        for (int j = 0; j < p_; ++j)
            if (std::fabs(slope_[j]) >= 2 * first - top()) open(j);
    }

  private:
    double top() const {
        double most = 0.0;
        for (const double value : slope_) most = std::max(most, std::fabs(value));
        return most;
    }

    // Gives column j a slot.
    void open(int j) {
        if (slot_[j] >= 0 || size_[j] == 0.0) return;
        const int s = static_cast<int>(feature_.size());
        if (s == room_) grow();
        slot_[j] = s;
        feature_.push_back(j);
        columns_.resize(static_cast<std::size_t>(s + 1) * n_);
        double *column = &columns_[static_cast<std::size_t>(s) * n_];
        const double *from = x_ + j;
        for (int i = 0; i < n_; ++i) column[i] = from[static_cast<std::size_t>(i) * p_];
        for (int t = 0; t <= s; ++t) {
            const double value = dot(column, &columns_[static_cast<std::size_t>(t) * n_], n_) / n_;
            gram_[static_cast<std::size_t>(s) * room_ + t] = value;
            gram_[static_cast<std::size_t>(t) * room_ + s] = value;
        }
        moment_.push_back(dot(column, y_, n_) / n_);
        b_.push_back(0.0);
        h_.push_back(dot(column, r_.data(), n_) / n_);
    }

    void grow() {
        const int wider = std::max(64, 2 * room_);
        std::vector<double> moved(static_cast<std::size_t>(wider) * wider);
        for (int s = 0; s < room_; ++s)
            std::copy_n(&gram_[static_cast<std::size_t>(s) * room_], room_,
                        &moved[static_cast<std::size_t>(s) * wider]);
        gram_.swap(moved);
        room_ = wider;
    }

    // Minimises over the slots; h_ is the slope at b_ throughout.
    void on_slots(double penalty) {
        const int count = static_cast<int>(feature_.size());
        bool settled = false;
        for (int sweep = 0; sweep < 2000; ++sweep) {
            double largest = 0.0;
            bool changed = false;
            for (int s = 0; s < count; ++s) {
                const double *row = &gram_[static_cast<std::size_t>(s) * room_];
                const double target = h_[s] + row[s] * b_[s];
                const double size = std::fabs(target) - penalty;
                const double moved = size > 0 ? std::copysign(size, target) / row[s] : 0.0;
                const double step = moved - b_[s];
                if (step == 0.0) continue;
                changed |= (moved > 0) != (b_[s] > 0) || (moved < 0) != (b_[s] < 0);
                largest = std::max(largest, row[s] * step * step);
                add(h_.data(), -step, row, count);
                b_[s] = moved;
            }
            if (largest < 1e-14) return;
            const bool stable = !changed;
            if (stable && settled && jump(penalty)) return;
            if (largest < 1e-11 && static_cast<int>(active_.size()) > kLargest) return;
            settled = stable || sweep >= 6;
        }
    }

    // Goes to the exact solution for the present signs; returns whether it is the solution.
    bool jump(double penalty) {
        const int count = static_cast<int>(feature_.size());
        active_.clear();
        for (int s = 0; s < count; ++s)
            if (b_[s] != 0.0) active_.push_back(s);
        const int a = static_cast<int>(active_.size());
        if (a > kLargest || a >= n_) return false;
        factor_.resize(static_cast<std::size_t>(a) * a);
        goal_.resize(a);
        for (int i = 0; i < a; ++i) {
            double *row = &factor_[static_cast<std::size_t>(i) * a];
            const double *from = &gram_[static_cast<std::size_t>(active_[i]) * room_];
            for (int j = 0; j <= i; ++j) {
                const double *other = &factor_[static_cast<std::size_t>(j) * a];
                const double value = from[active_[j]] - dot(row, other, j);
                if (j < i) {
                    row[j] = value / other[j];
                } else if (value > 1e-12) {
                    row[i] = std::sqrt(value);
                } else {
                    return false;
                }
            }
            const double wanted = moment_[active_[i]] - std::copysign(penalty, b_[active_[i]]);
            goal_[i] = (wanted - dot(row, goal_.data(), i)) / row[i];
        }
        for (int i = a - 1; i >= 0; --i) {
            goal_[i] /= factor_[static_cast<std::size_t>(i) * a + i];
            const double *row = &factor_[static_cast<std::size_t>(i) * a];
            for (int j = 0; j < i; ++j) goal_[j] -= row[j] * goal_[i];
        }
        double share = 1.0;
        int first = -1;
        for (int i = 0; i < a; ++i) {
            const double from = b_[active_[i]];
            if (goal_[i] * from <= 0.0 && from / (from - goal_[i]) < share) {
                share = from / (from - goal_[i]);
                first = i;
            }
        }
        for (int i = 0; i < a; ++i) {
            double &value = b_[active_[i]];
            value = i == first ? 0.0 : value + share * (goal_[i] - value);
        }
        std::copy_n(moment_.begin(), count, h_.begin());
        for (int i = 0; i < a; ++i)
            if (b_[active_[i]] != 0.0)
                add(h_.data(), -b_[active_[i]], &gram_[static_cast<std::size_t>(active_[i]) * room_], count);
        if (first >= 0) return false;
        for (int s = 0; s < count; ++s)
            if (b_[s] == 0.0 && std::fabs(h_[s]) > penalty * (1 + 1e-9)) return false;
        return true;
    }

    void residual() {
        std::copy_n(y_, n_, r_.begin());
        for (std::size_t s = 0; s < feature_.size(); ++s)
            if (b_[s] != 0.0) add(r_.data(), -b_[s], &columns_[s * n_], n_);
    }

    // Opens slots for columns whose slope is above watched; returns whether one violates penalty.
    bool let_in(double penalty, double watched) {
        double apart = 0.0;
        for (int i = 0; i < n_; ++i) apart += (r_[i] - r0_[i]) * (r_[i] - r0_[i]);
        apart = std::sqrt(apart);
        near_.clear();
        for (int j = 0; j < p_; ++j)
            if (slot_[j] < 0 && std::fabs(slope_[j]) + size_[j] * apart > watched) near_.push_back(j);
        const int count = static_cast<int>(near_.size());
        if (count > p_ / 8) {
            std::fill(slope_.begin(), slope_.end(), 0.0);
            for (int i = 0; i < n_; ++i)
                add(slope_.data(), r_[i], x_ + static_cast<std::size_t>(i) * p_, p_);
            for (double &value : slope_) value /= n_;
            r0_ = r_;
            for (const int j : near_) now_[j] = slope_[j];
        } else {
            sums_.assign(count, 0.0);
            for (int i = 0; i < n_; ++i) {
                const double *row = x_ + static_cast<std::size_t>(i) * p_;
                for (int c = 0; c < count; ++c) sums_[c] += r_[i] * row[near_[c]];
            }
            for (int c = 0; c < count; ++c) now_[near_[c]] = sums_[c] / n_;
        }
        bool violated = false;
        for (const int j : near_) {
            const double size = std::fabs(now_[j]);
            violated |= size > penalty * (1 + 1e-9);
            if (size > watched) open(j);
        }
        return violated;
    }

    static constexpr int kLargest = 160;
    int n_, p_, room_ = 0;
    const double *x_, *y_;
    std::vector<double> slope_, size_, now_;
    std::vector<int> slot_;
    std::vector<double> r_, r0_, columns_, gram_, moment_, b_, h_, factor_, goal_, sums_;
    std::vector<int> feature_, active_, near_;
};

}  // namespace

// EVOLVE-BLOCK-START
extern "C" void lasso_path(int n, int p, int k, const double *x, const double *y,
                           const double *penalties, double *coefficients) {
    Path path(n, p, x, y);
    if (k > 0) path.expect(penalties[0]);
    for (int at = 0; at < k; ++at) {
        const double next = at + 1 < k ? penalties[at + 1] : penalties[at];
        path.solve(penalties[at], next, coefficients + static_cast<std::size_t>(at) * p);
    }
}
// EVOLVE-BLOCK-END

// Lasso paths by coordinate descent with warm starts and an active set.
//
// For each of k decreasing penalties: minimise 1/(2n) |y - X b|^2 + penalty |b|_1.
// x is n x p, row-major; write the coefficients to k rows of p numbers.

#include <algorithm>
#include <cmath>
#include <vector>

// EVOLVE-BLOCK-START
extern "C" void lasso_path(int n, int p, int k, const double *x, const double *y,
                           const double *penalties, double *coefficients) {
    // Columns are visited one by one, so they are laid out one after the other.
    std::vector<double> columns(static_cast<std::size_t>(n) * p);
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < p; ++j) columns[static_cast<std::size_t>(j) * n + i] = x[static_cast<std::size_t>(i) * p + j];
    std::vector<double> square(p), beta(p, 0.0), residual(y, y + n);
    for (int j = 0; j < p; ++j) {
        const double *column = &columns[static_cast<std::size_t>(j) * n];
        double sum = 0.0;
        for (int i = 0; i < n; ++i) sum += column[i] * column[i];
        square[j] = sum / n;
    }
    const double tolerance = 1e-10;
    std::vector<int> active;
    auto visit = [&](int j, double penalty) {
        if (square[j] == 0.0) return 0.0;
        const double *column = &columns[static_cast<std::size_t>(j) * n];
        double slope = 0.0;
        for (int i = 0; i < n; ++i) slope += column[i] * residual[i];
        const double target = slope / n + square[j] * beta[j];
        const double moved = std::copysign(std::max(0.0, std::fabs(target) - penalty), target) / square[j];
        const double step = moved - beta[j];
        if (step != 0.0) {
            for (int i = 0; i < n; ++i) residual[i] -= step * column[i];
            beta[j] = moved;
        }
        return square[j] * step * step;
    };
    for (int at = 0; at < k; ++at) {
        for (int sweep = 0; sweep < 1000; ++sweep) {
            double largest = 0.0;
            active.clear();
            for (int j = 0; j < p; ++j) {
                largest = std::max(largest, visit(j, penalties[at]));
                if (beta[j] != 0.0) active.push_back(j);
            }
            if (largest < tolerance) break;
            for (int inner = 0; inner < 1000; ++inner) {
                double moved = 0.0;
                for (const int j : active) moved = std::max(moved, visit(j, penalties[at]));
                if (moved < tolerance) break;
            }
        }
        std::copy(beta.begin(), beta.end(), coefficients + static_cast<std::size_t>(at) * p);
    }
}
// EVOLVE-BLOCK-END

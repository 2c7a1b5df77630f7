// Compiles expressions and matches names as libstdc++'s std::regex does, the one that ncu uses.
// Input: lines "E expression", each followed by lines "N name". Output: a line of 0 and 1 for the names of each
// expression, or what std::regex has against it; with an argument, the best of so many compilations in microseconds.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <regex>
#include <string>

int main(int count, char **words) {
    const int times = count > 1 ? std::atoi(words[1]) : 0;
    std::string line, found;
    std::regex expression;
    bool is_open = false, is_good = false;
    while (std::getline(std::cin, line)) {
        const std::string text = line.size() > 2 ? line.substr(2) : "";
        if (line[0] == 'N') {
            if (is_good) found += std::regex_search(text, expression) ? '1' : '0';
            continue;
        }
        if (is_open) std::cout << found << '\n';
        found.clear();
        is_open = true;
        try {
            double best = 1e9;
            for (int run = 0; run < (times ? times : 1); ++run) {
                const auto begun = std::chrono::steady_clock::now();
                expression = std::regex(text);
                const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begun;
                best = std::min(best, took.count());
            }
            is_good = true;
            if (times) found = std::to_string(best);
        } catch (const std::regex_error &error) {
            is_good = false;
            found = std::string("refused: ") + error.what();
        }
    }
    if (is_open) std::cout << found << '\n';
}

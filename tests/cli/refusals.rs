// SPDX-License-Identifier: GPL-2.0-only
//! What the command refuses, word for word and with its exit code: refusals/*.trycmd.  After a
//! change of words `TRYCMD=overwrite cargo test -p paratick refusals` writes them anew; read the
//! difference.

use tempfile::TempDir;

/// It could boot nothing: its cache is empty and its agent missing.
#[test]
fn refusals_are_word_for_word() {
    let cache = TempDir::new().unwrap();
    let cache = cache.path().to_str().unwrap().to_string();
    let cases = trycmd::TestCases::new();
    cases.insert_var("[CACHE]", cache.clone()).unwrap();
    cases
        .case("../../tests/cli/refusals/*.trycmd")
        .env("PARATICK_CACHE", cache)
        .env("PARATICK_AGENT", "/no/such/agent");
}

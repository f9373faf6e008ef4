//! The corpus of each fuzz target: each of its files runs without a panic.

use m3ipc_test_fuzz::TARGETS;
use std::path::Path;

#[test]
fn each_file_of_the_corpus_runs() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in TARGETS {
        let files = std::fs::read_dir(corpus.join(name)).expect("the target has a corpus");
        let mut count = 0;
        for file in files {
            let path = file.expect("a file").path();
            let bytes = std::fs::read(&path).expect("it can be read");
            // The path of a file that panics is in the output of the test.
            println!("{}", path.display());
            target(&bytes);
            count += 1;
        }
        assert!(count > 0, "no file of {name}");
    }
}

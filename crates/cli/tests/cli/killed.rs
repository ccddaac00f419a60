//! A program killed in the middle of its work.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::Folder;

/// The target never holds half a file. The hidden temporary file stays until the target is written again.
#[test]
fn a_killed_convert_leaves_no_half_written_output() {
    let folder = Folder::new();
    folder.run("synth -n 2000 --solutions 2 -o world.jsonl").succeeds();
    std::fs::create_dir(folder.path("out")).unwrap();
    let world = folder.bytes("world.jsonl");

    // Input from a pipe that stays open: the program is in the middle however fast the machine is.
    let mut child = folder
        .command(&["data", "convert", "-", "-o", "out/result.jsonl"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&world).unwrap();
    let begun = Instant::now();
    let written =
        || folder.names("out").iter().any(|name| folder.path("out").join(name).metadata().unwrap().len() > 0);
    while !written() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing was written");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().code(), None, "the program was not killed but ended");
    let left = folder.names("out");
    assert!(left.len() == 1 && left[0].starts_with(".gradus-"), "{left:?}");

    folder.run("data convert world.jsonl -o out/result.jsonl").succeeds();
    assert_eq!(folder.bytes("out/result.jsonl"), world);
    assert_eq!(folder.names("out"), ["result.jsonl"], "what the killed run left is gone");
    let counted = folder.run("data stats out --json").json();
    assert_eq!(counted["records"], 2000, "a leftover is not read as data");
}

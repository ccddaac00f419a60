//! Kills, damage, locks, and folders that are no projects.

use gradus_core::Mark;
use gradus_label::requests::{NextRequest, SaveRequest};
use gradus_label::{Error, Labeling, Project, Settings};

use crate::{MINUS, PLUS, Scratch, copy, finish, next, person, record, settings};

/// What each person's answer to an event said, to compare with what a reopened project says.
fn labels(labeling: &Labeling) -> Vec<(u64, Vec<Option<Mark>>, bool)> {
    let of = |item| {
        let asked = NextRequest { item: Some(item), ..NextRequest::of("Ann") };
        let task = labeling.next(&asked).unwrap().task.unwrap();
        (task.revision, task.label.marks, task.finished)
    };
    (0..labeling.project().items()).map(of).collect()
}

/// The journal after a kill in and around every line: all that had been acknowledged by then is there.
#[test]
fn a_kill_at_any_moment_loses_nothing_that_was_acknowledged() {
    let scratch = Scratch::new(2, settings(1));
    let labeling = scratch.open();
    let mut acknowledged = vec![(0, vec![(0, vec![None; 3], false); 2])];
    let mut note = |labels: Vec<(u64, Vec<Option<Mark>>, bool)>| {
        acknowledged.push((std::fs::read(scratch.journal()).unwrap().len(), labels));
    };
    let mut expected = vec![(0, vec![None; 3], false); 2];
    for item in 0..2 {
        let asked = NextRequest { item: Some(item), ..NextRequest::of("Ann") };
        let mut task = labeling.next(&asked).unwrap().task.unwrap();
        note(expected.clone());
        for (marks, finished) in [([PLUS, None, None], false), ([PLUS, MINUS, None], true)] {
            let save = SaveRequest { finished, ..task.save("Ann", marks.to_vec()) };
            task.revision = labeling.save(&save).unwrap().revision;
            expected[item] = (task.revision, marks.to_vec(), finished);
            note(expected.clone());
        }
    }
    labeling.undo(&person("Ann")).unwrap();
    expected[1] = (3, vec![PLUS, None, None], false);
    note(expected.clone());
    drop(labeling);
    let journal = std::fs::read(scratch.journal()).unwrap();
    let other = scratch.folder.with_file_name("killed");
    let ends: Vec<usize> = acknowledged.iter().map(|(bytes, _)| *bytes).collect();
    for kill in
        (0..=journal.len()).filter(|kill| kill % 29 == 0 || ends.iter().any(|end| end.abs_diff(*kill) < 3))
    {
        copy(&scratch.folder, &other);
        std::fs::write(other.join("labels.journal"), &journal[..kill]).unwrap();
        let labeling = Labeling::open(&other).unwrap();
        let (_, expected) = acknowledged.iter().rev().find(|(bytes, _)| *bytes <= kill).unwrap();
        // A whole line without its line break was written, though nobody had been told of it.
        let (_, also) =
            acknowledged.iter().find(|(bytes, _)| *bytes > kill).unwrap_or(acknowledged.last().unwrap());
        let found = labels(&labeling);
        assert!(found == *expected || found == *also, "killed after {kill} bytes: {found:?}");
        assert_eq!(labeling.damaged_lines(), 0);
    }
}

#[test]
fn a_damaged_line_costs_one_save_and_is_said() {
    let scratch = Scratch::new(3, settings(1));
    let labeling = scratch.open();
    for _ in 0..3 {
        finish(&labeling, "Ann", [PLUS; 3]);
    }
    drop(labeling);
    let journal = std::fs::read_to_string(scratch.journal()).unwrap();
    // The save of item 1: lines alternate between items that are given and saved.
    let damaged: Vec<String> = journal
        .lines()
        .enumerate()
        .map(|(line, text)| if line == 3 { text.replacen("correct", "corrupt", 1) } else { text.to_owned() })
        .collect();
    std::fs::write(scratch.journal(), damaged.join("\n") + "\n").unwrap();
    let labeling = scratch.open();
    assert_eq!(labeling.damaged_lines(), 1);
    let overview = labeling.overview();
    assert_eq!((overview.damaged_lines, overview.done), (1, 2));
    assert_eq!(finish(&labeling, "Ann", [PLUS; 3]), 1, "the item that lost its label comes again");
    assert_eq!(labeling.overview().done, 3);
}

#[test]
fn one_process_labels_and_others_may_look() {
    let scratch = Scratch::new(1, settings(1));
    let labeling = scratch.open();
    finish(&labeling, "Ann", [PLUS; 3]);
    let refused = Labeling::open(&scratch.folder).err().unwrap().to_string();
    assert!(refused.contains("is being labeled by another process"), "{refused}");
    let looking = Labeling::read(&scratch.folder).unwrap();
    assert_eq!(looking.overview().done, 1);
    assert!(matches!(looking.undo(&person("Ann")), Err(Error::ReadOnly)));
    drop(labeling);
    assert!(next(&scratch.open(), "Bo").is_none());
}

#[test]
fn a_folder_that_is_no_project_is_refused() {
    let scratch = Scratch::new(1, settings(1));
    let again = Project::create(&scratch.folder, vec![record(0)], Settings::default()).unwrap_err();
    assert!(again.to_string().contains("is already there"), "{again}");
    let missing = Labeling::open(&scratch.folder.join("none")).err().unwrap().to_string();
    assert!(missing.contains("is no labeling project: make one with `gradus label create`"), "{missing}");
    let records = scratch.folder.join("records.jsonl");
    let text = std::fs::read_to_string(&records).unwrap();
    std::fs::write(&records, text.replace("Problem 0", "Problem 1")).unwrap();
    let changed = Labeling::open(&scratch.folder).err().unwrap().to_string();
    assert!(changed.contains("records.jsonl: has changed since the project was made"), "{changed}");
    let folder = scratch.folder.with_file_name("other");
    let mut empty = record(0);
    empty.solutions[0].steps.clear();
    let nothing = Project::create(&folder, vec![empty], Settings::default()).unwrap_err();
    assert!(nothing.to_string().contains("no solution with steps") && !folder.exists());
    let wrong = Settings { people_per_item: 0, ..Settings::default() };
    assert!(Project::create(&folder, vec![record(0)], wrong).is_err());
    let mut twice = record(0);
    twice.solutions.push(gradus_core::Solution { id: "again".to_owned(), ..twice.solutions[0].clone() });
    let created = Project::create(&folder, vec![twice], Settings::default()).unwrap();
    assert_eq!((created.items, created.united), (1, 1));
}

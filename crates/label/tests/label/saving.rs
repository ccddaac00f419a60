//! Labels, undo, suggestions and what is refused.

use gradus_core::FirstError;
use gradus_label::requests::{NextRequest, SaveRequest};
use gradus_label::{Error, ErrorKind, Labeling, SolutionLabel};

use crate::{MINUS, PLUS, Scratch, ZERO, finish, next, person, settings, suggested, this};

#[test]
fn undo_takes_saves_back_one_by_one() {
    let scratch = Scratch::new(2, settings(1));
    let mut labeling = scratch.open();
    let first = next(&labeling, "Ann").unwrap();
    let saves = [[PLUS, None, None], [PLUS, ZERO, None], [PLUS, ZERO, MINUS]];
    for (revision, marks) in saves.iter().enumerate() {
        let mut save = first.save("Ann", marks.to_vec());
        save.revision = revision as u64;
        save.finished = revision == 2;
        assert_eq!(labeling.save(&save).unwrap().revision, revision as u64 + 1);
    }
    let second = next(&labeling, "Ann").unwrap();
    assert_eq!(second.item, 1);
    labeling.save(&second.save("Ann", vec![MINUS, None, None])).unwrap();
    let undo = |labeling: &Labeling| {
        let back = labeling.undo(&person("Ann")).unwrap().task.unwrap();
        (back.item, back.label.marks.clone(), back.finished, back.revision)
    };
    assert_eq!(undo(&labeling), (1, vec![None; 3], false, 2));
    assert_eq!(undo(&labeling), (0, saves[1].to_vec(), false, 4));
    // The item of a save that was taken back is hers, and nobody else's.
    assert_eq!(next(&labeling, "Bo").unwrap().item, 1);
    drop(labeling);
    labeling = scratch.open();
    assert_eq!(undo(&labeling), (0, saves[0].to_vec(), false, 5));
    assert_eq!(undo(&labeling), (0, vec![None; 3], false, 6));
    let nothing = labeling.undo(&person("Ann")).unwrap_err();
    assert_eq!((nothing.kind(), nothing.code()), (ErrorKind::Conflict, "nothing_to_undo"));
    let save = SaveRequest { revision: 6, ..first.save("Ann", vec![PLUS, None, None]) };
    assert_eq!(labeling.save(&save).unwrap().revision, 7);
}

#[test]
fn two_windows_of_one_person_do_not_overwrite_each_other() {
    let scratch = Scratch::new(1, settings(1));
    let labeling = scratch.open();
    let (one, other) = (next(&labeling, "Ann").unwrap(), next(&labeling, "Ann").unwrap());
    labeling.save(&one.save("Ann", vec![PLUS, None, None])).unwrap();
    let stale = labeling.save(&other.save("Ann", vec![MINUS, None, None])).unwrap_err();
    assert!(matches!(stale, Error::StaleRevision { expected: 0, found: 1, .. }), "{stale}");
    assert_eq!((stale.kind(), stale.code()), (ErrorKind::Conflict, "stale_revision"));
    let body = serde_json::to_value(stale.body()).unwrap();
    assert_eq!(body["error"]["code"], "stale_revision");
    assert!(body["error"]["message"].as_str().unwrap().contains("changed in another window"));
}

#[test]
fn a_request_that_is_sent_again_is_answered_again() {
    let scratch = Scratch::new(1, settings(1));
    let mut labeling = scratch.open();
    let task = next(&labeling, "Ann").unwrap();
    let save = SaveRequest { request: "r1".to_owned(), ..task.save("Ann", vec![PLUS, None, None]) };
    let answer = labeling.save(&save).unwrap();
    assert_eq!(labeling.save(&save).unwrap(), answer);
    drop(labeling);
    labeling = scratch.open();
    assert_eq!(labeling.save(&save).unwrap(), answer, "also after a restart");
    assert_eq!(next(&labeling, "Ann").unwrap().revision, 1);
}

#[test]
fn a_label_that_cannot_be_is_refused_with_a_sentence() {
    let scratch = Scratch::new(1, settings(1));
    let labeling = scratch.open();
    let task = next(&labeling, "Ann").unwrap();
    let refused = |change: &dyn Fn(&mut SaveRequest)| {
        let mut save = task.save("Ann", vec![PLUS, PLUS, MINUS]);
        change(&mut save);
        let error = labeling.save(&save).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Invalid | ErrorKind::NotFound));
        error.to_string()
    };
    let said = [
        refused(&|save| save.label.marks.truncate(2)),
        refused(&|save| save.label.comments = vec![String::new()]),
        refused(&|save| save.label.comments = vec!["x".repeat(10_001), String::new(), String::new()]),
        refused(&|save| save.label.categories = vec![vec!["SLOPPY".to_owned()], vec![], vec![]]),
        refused(&|save| save.label.first_error = FirstError::At(1)),
        refused(&|save| save.label.first_error = FirstError::None),
        refused(&|save| {
            save.finished = true;
            save.label.marks[1] = None;
        }),
        refused(&|save| save.annotator = "  ".to_owned()),
        refused(&|save| save.annotator = "a\u{7}".to_owned()),
        refused(&|save| save.item = 9),
    ];
    let expected = [
        "marks: 2 for 3 steps",
        "comments: 1 for 3 steps",
        "comments[0] has more than 10000 characters",
        "\"SLOPPY\" is not one of NUMERIC, COMPREHENSION",
        "first_error is 1, but the first step marked as wrong is 2",
        "first_error is none, but the first step marked as wrong is 2",
        "step 2 has no mark: every step up to the first error needs one",
        "annotator is empty: say who labels",
        "annotator has a control character",
        "there is no item 9: the project has 1",
    ];
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn suggestions_are_shown_when_asked_for_and_that_is_noted() {
    let scratch = Scratch::of(vec![suggested(0, [0.9, 0.4, 0.1], &[Some(1)])], settings(2));
    let mut labeling = scratch.open();
    let task = next(&labeling, "Ann").unwrap();
    assert!(!serde_json::to_string(&task).unwrap().contains("prm"), "a task says nothing of models");
    assert!(!task.suggestions_seen);
    let found = labeling.suggestions(&this("Ann", 0)).unwrap();
    assert_eq!((found.scores["prm"][1], found.threshold), (0.4, 0.5));
    assert_eq!(
        (found.labels[0].annotator.as_str(), found.labels[0].first_error),
        ("judge j0", FirstError::At(1))
    );
    drop(labeling);
    labeling = scratch.open();
    assert!(next(&labeling, "Ann").unwrap().suggestions_seen);
    finish(&labeling, "Ann", [PLUS, MINUS, None]);
    finish(&labeling, "Bo", [PLUS, MINUS, None]);
    let seen: Vec<usize> = labeling.overview().people.iter().map(|person| person.suggestions_seen).collect();
    assert_eq!(seen, [1, 0]);
    let journal = std::fs::read_to_string(scratch.journal()).unwrap();
    assert!(journal.contains("\"suggestions_seen\":true") && journal.contains("\"suggestions_seen\":false"));
    // Nobody is shown what other people of the project say.
    assert_eq!(labeling.suggestions(&this("Bo", 0)).unwrap().labels.len(), 1);
}

#[test]
fn requests_are_plain_json() {
    let save: SaveRequest = serde_json::from_str(
        r#"{"annotator":"Ann","item":0,"revision":0,"label":{"marks":["correct","neutral","incorrect"],"first_error":2,
            "comments":["","","No."],"categories":[[],[],["LOGIC"]]},"finished":true}"#,
    )
    .unwrap();
    let label = SolutionLabel {
        marks: vec![PLUS, ZERO, MINUS],
        first_error: FirstError::At(2),
        comments: vec![String::new(), String::new(), "No.".to_owned()],
        categories: vec![vec![], vec![], vec!["LOGIC".to_owned()]],
    };
    assert_eq!((save.label.clone(), save.finished), (label, true));
    let scratch = Scratch::new(1, settings(1));
    let labeling = scratch.open().with_renderer(Box::new(|text| format!("<b>{}</b>", text.len())));
    let next: NextRequest = serde_json::from_str(r#"{"annotator":"Ann"}"#).unwrap();
    let answer = serde_json::to_value(labeling.next(&next).unwrap()).unwrap();
    assert_eq!(answer["task"]["problem"], serde_json::json!({"text": "Problem 0", "html": "<b>9</b>"}));
    assert_eq!(answer["task"]["label"]["marks"], serde_json::json!([null, null, null]));
    let answer = serde_json::to_value(labeling.save(&save).unwrap()).unwrap();
    assert_eq!(answer["progress"], serde_json::json!({"items": 1, "done": 1, "mine": 1}));
    assert!(serde_json::from_str::<NextRequest>(r#"{"annotator":"Ann","itme":1}"#).is_err());
}

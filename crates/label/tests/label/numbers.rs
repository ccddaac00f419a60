//! Agreement, estimates and export.

use gradus_core::{Annotation, FirstError, Mark, Record};
use gradus_data::readers::Format;
use gradus_label::requests::SaveRequest;
use gradus_label::{Combine, ExportFormat};
use serde_json::{Value, json};

use crate::{MINUS, PLUS, Scratch, ZERO, finish, next, settings, suggested};

fn read(format: Format, row: &Value) -> Record {
    format.read(row.as_object().unwrap().clone()).unwrap().record
}

#[test]
fn people_are_compared_step_by_step_and_by_the_first_error() {
    let scratch = Scratch::new(3, settings(2));
    let labeling = scratch.open();
    for marks in [[PLUS, PLUS, PLUS], [PLUS, MINUS, None], [PLUS, ZERO, MINUS]] {
        finish(&labeling, "Ann", marks);
    }
    for marks in [[PLUS, PLUS, MINUS], [PLUS, MINUS, None], [PLUS, PLUS, MINUS]] {
        finish(&labeling, "Bo", marks);
    }
    let overview = labeling.overview();
    assert_eq!((overview.items, overview.done, overview.people.len()), (3, 3, 2));
    let ann = &overview.people[0];
    assert_eq!((ann.name.as_str(), ann.finished, ann.marks, ann.errors), ("Ann", 3, 8, 2));
    let [pair] = overview.pairs.as_slice() else { panic!("{:?}", overview.pairs) };
    assert_eq!((pair.items, pair.steps, pair.same_first_error), (3, 8, Some(2.0 / 3.0)));
    // Ann: 5 +, 2 −, 1 zero; Bo: 5 +, 3 −; alike in 6 of 8: (6/8 − 31/64) / (1 − 31/64).
    assert!((pair.kappa.unwrap() - 17.0 / 33.0).abs() < 1e-12, "{pair:?}");
    let estimate = overview.estimate.as_ref().unwrap();
    assert_eq!((estimate.people.len(), estimate.with_error + estimate.without_error), (2, 3));
    assert!(estimate.people.iter().all(|person| person.reliability.sensitivity > 0.5), "{estimate:?}");
    assert!((0.5..=1.0).contains(&estimate.mean_probability));
    let json = serde_json::to_value(&overview).unwrap();
    assert_eq!((&json["order"], &json["categories"][0]), (&json!("file"), &json!("NUMERIC")));
}

#[test]
fn our_format_has_an_annotation_per_person() {
    let scratch = Scratch::of(vec![suggested(0, [0.9, 0.4, 0.1], &[Some(1)]), crate::record(1)], settings(2));
    let labeling = scratch.open();
    let task = next(&labeling, "Ann").unwrap();
    let mut save = SaveRequest { finished: true, ..task.save("Ann", vec![PLUS, MINUS, None]) };
    save.label.comments = vec![String::new(), "2 + 3 is 5.".to_owned(), "Not looked at.".to_owned()];
    save.label.categories = vec![vec![], vec!["NUMERIC".to_owned()], vec![]];
    labeling.save(&save).unwrap();
    finish(&labeling, "Bo", [PLUS, PLUS, PLUS]);
    let draft = next(&labeling, "Ann").unwrap();
    labeling.save(&draft.save("Ann", vec![PLUS, None, None])).unwrap();
    let exported = labeling.export(ExportFormat::Gradus, Combine::default());
    assert_eq!((exported.rows.len(), exported.labeled), (2, 1));
    let solution = &read(Format::Gradus, &exported.rows[0]).solutions[0];
    let names: Vec<String> = solution.annotations.iter().map(Annotation::source_name).collect();
    assert_eq!(names, ["judge j0", "human Ann", "human Bo"]);
    let wrong = solution.annotations[1].labels[1].as_ref().unwrap();
    let evidence = wrong.evidence.as_ref().unwrap();
    assert_eq!((evidence.explanation.as_str(), evidence.errors[0].as_str()), ("2 + 3 is 5.", "NUMERIC"));
    assert_eq!(solution.annotations[1].first_error, FirstError::At(1));
    assert_eq!(
        solution.metadata["comments"],
        json!([{"person": "Ann", "step": 2, "text": "Not looked at."}])
    );
    let unfinished = &read(Format::Gradus, &exported.rows[1]).solutions[0];
    assert!(unfinished.annotations.is_empty(), "what is begun is not exported");
    assert_eq!(exported.to_json_lines().lines().count(), 2);
}

#[test]
fn formats_with_one_label_get_the_combined_one() {
    let scratch = Scratch::new(3, settings(3));
    let labeling = scratch.open();
    for (name, marks) in
        [("Ann", [PLUS, ZERO, MINUS]), ("Bo", [PLUS, ZERO, MINUS]), ("Cy", [MINUS, None, None])]
    {
        finish(&labeling, name, marks);
    }
    finish(&labeling, "Ann", [PLUS, MINUS, PLUS]);
    for combine in [Combine::Majority, Combine::DawidSkene] {
        let trl = labeling.export(ExportFormat::Trl, combine);
        assert_eq!((trl.rows.len(), trl.labeled, trl.cut), (2, 2, 0), "{combine:?}");
        assert_eq!(trl.rows[0]["labels"], json!([true, true, false]));
        assert_eq!(trl.rows[1]["labels"], json!([true, false, true]), "one person's labels stay as they are");
        assert_eq!(trl.dropped["nobody has finished it"], 1);
        let prm800k = labeling.export(ExportFormat::Prm800k, combine);
        let solution = &read(Format::Prm800k, &prm800k.rows[0]).solutions[0];
        let marks: Vec<Mark> =
            solution.annotations[0].labels.iter().flatten().map(|label| label.mark).collect();
        assert_eq!(marks, [Mark::Correct, Mark::Neutral, Mark::Incorrect]);
    }
    assert!("csv".parse::<ExportFormat>().is_err() && "mean".parse::<Combine>().is_err());
}

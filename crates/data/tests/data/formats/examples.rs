//! Hand-written records of every format, awkward ones among them, and what they become.

use gradus_core::{Annotation, LabelSource};
use gradus_data::readers::Format;
use serde_json::{Value, json};

use super::{comes_back, read};

#[test]
fn every_format_has_examples() {
    let with: Vec<Format> = examples().into_iter().map(|(format, _)| format).collect();
    assert_eq!(with, Format::ALL);
}

#[test]
fn examples_come_back_as_they_were() {
    for (format, rows) in examples() {
        for row in rows {
            comes_back(&row, format);
        }
    }
}

#[test]
fn examples_become_records() {
    for (format, rows) in examples() {
        let read: Vec<Value> = rows
            .iter()
            .map(|row| {
                let parsed = read(row).1;
                let record = serde_json::to_value(&parsed.record).unwrap();
                let issues: Vec<_> = parsed.issues.iter().map(ToString::to_string).collect();
                if issues.is_empty() { record } else { json!({"record": record, "issues": issues}) }
            })
            .collect();
        insta::assert_json_snapshot!(format.name(), read);
    }
}

/// What each format can say of a record with errors, from a format that says most.
#[test]
fn a_record_is_written_in_every_format() {
    let source = json!({"id": "gsm8k-0", "generator": "m", "problem": "What is 2 + 3?", "steps": ["2 + 3 = 6", "So 6"],
        "final_answer_correct": false, "label": 0, "extra": true});
    let mut record = read(&source).1.record;
    record.problem.answer = Some("5".into());
    record.problem.reference = vec!["2 + 3 = 5".into()];
    let written: serde_json::Map<String, Value> = Format::ALL
        .into_iter()
        .map(|format| {
            let written = format.write(&record);
            let lost: serde_json::Map<String, Value> =
                written.lost.iter().map(|(part, count)| ((*part).to_owned(), (*count).into())).collect();
            let said =
                json!({"rows": written.rows, "dropped": written.dropped, "cut": written.cut, "lost": lost});
            (format.name().to_owned(), said)
        })
        .collect();
    insta::assert_json_snapshot!("written_in_every_format", written);
}

/// What a format has no place for is counted, part by part.
#[test]
fn lost_parts_are_counted() {
    let row = json!({"gradus": 1,
        "problem": {"id": "p", "text": "What is 2 + 3?", "context": ["Numbers are whole."], "reference": ["2 + 3 = 5"],
            "answer": "5"},
        "solutions": [{"id": "p/0", "problem_id": "p", "generator": "m", "steps": ["2 + 3 = 5", "So 5"],
            "outcome": "correct", "scores": {"prm": [0.9, 0.8]},
            "annotations": [
                {"labels": [{"mark": "correct", "source": "human"}, {"mark": "correct", "source": "human"}],
                 "first_error": "none"},
                {"labels": [{"mark": "incorrect", "source": {"judge": {"model": "j", "agreeing": 1, "votes": 1}}}, null],
                 "first_error": 0}]}]});
    let record = read(&row).1.record;
    let lost = |format: Format| format.write(&record).lost;
    assert_eq!(lost(Format::Gradus), []);
    let others = [("step scores", 2), ("outcomes of solutions", 1), ("names of generators", 1)];
    let problem = [("gold answers", 1), ("reference solutions", 1), ("context passages", 1)];
    let expected = [&[("further annotations of a solution", 1)][..], &others[..], &problem[..]].concat();
    assert_eq!(lost(Format::Trl), expected);
    // The question has the context in it.
    let expected = [
        ("step labels", 2),
        ("further annotations of a solution", 1),
        ("step scores", 2),
        ("reference solutions", 1),
    ];
    assert_eq!(lost(Format::Outputs), expected);
}

/// The first error survives the way through every format that can express it.
#[test]
fn the_first_error_crosses_formats() {
    let source = json!({"problem": "What is 2 + 3?", "steps": ["Add", "2 + 3 = 6", "So 6"],
        "final_answer_correct": false, "label": 1});
    let record = read(&source).1.record;
    let expected = gradus_core::FirstError::At(1);
    let mut kept = Vec::new();
    for format in Format::ALL {
        for row in format.write(&record).rows {
            let again = format.read(row.as_object().unwrap().clone()).unwrap().record;
            let annotations = again.solutions.iter().flat_map(|solution| &solution.annotations);
            for annotation in annotations {
                assert_eq!(annotation.first_error, expected, "{}", format.name());
                kept.push(format.name());
            }
        }
    }
    assert_eq!(kept.len(), 21, "{kept:?}");
}

/// A field that a format usually has is not made up for a record of its own that came without it.
#[test]
fn every_format_writes_the_most_trusted_labels() {
    let row = json!({"id": "p-0", "generator": "m", "problem": "What is 2 + 3?", "steps": ["Add.", "2 + 3 = 6", "So 6"],
        "final_answer_correct": false, "label": 1});
    let record = read(&row).1.record;
    let mut several = record.clone();
    let judge = LabelSource::Judge { model: "j".to_owned(), agreeing: 1, votes: 1 };
    let judged = Annotation::from_first_error(3, Some(0), &judge);
    several.solutions[0].annotations.insert(0, judged);
    // Ours and those of labeling tools have a place for everybody's.
    let for_one = |format: &&Format| ![Format::Gradus, Format::LabelStudio, Format::Argilla].contains(format);
    for format in Format::ALL.iter().filter(for_one) {
        assert_eq!(format.write(&several).rows, format.write(&record).rows, "{}", format.name());
    }
}

#[test]
fn absent_fields_stay_absent() {
    comes_back(&json!({"src": ["Q"], "responses": ["a"], "labels": ["+"]}), Format::PaddleNlp);
    let row = json!({"problem": "Q", "student_incorrect_solution": ["a"], "incorrect_index": 0});
    comes_back(&row, Format::StepVerify);
}

/// Where a generator's name becomes a field, a name that no reader takes is not written.
#[test]
fn a_generator_that_cannot_be_a_field_is_left_out() {
    let solution = json!({"model": "gradus:m", "output": "1", "correct": true});
    let record = read(&json!({"question": "Q", "gold": "1", "solutions": [solution]})).1.record;
    let written = Format::Gsm8kSolutions.write(&record);
    assert_eq!(written.rows, [json!({"question": "Q", "ground_truth": "A: 1"})]);
    assert_eq!(written.dropped, ["the generator's name cannot be a field"]);
}

/// Labels that changed after reading are written as they are now, even where the source's spelling was kept.
#[test]
fn changed_labels_are_written_not_the_old_ones() {
    for (format, row, field) in [
        (Format::Trl, json!({"prompt": "Q", "completions": ["a", "b"], "labels": [1, 0]}), "labels"),
        (Format::OpenRlhf, json!({"input": "Q? a ки\nb ки", "label": [true, false]}), "label"),
        (
            Format::PrmBench,
            json!({"modified_question": "Q", "modified_process": ["a", "b"], "error_steps": [2, 9]}),
            "error_steps",
        ),
        (
            Format::MrBen,
            json!({"Question": "Q", "Model_Solution_Steps": ["Step 1: a", "Step 2: b"],
                "Model_Solution_Correctness": "incorrect", "Model_Solution_First_Error_Step": 2}),
            "Model_Solution_First_Error_Step",
        ),
    ] {
        let mut record = comes_back(&row, format);
        let annotation = &mut record.solutions[0].annotations[0];
        *annotation = gradus_core::Annotation::from_first_error(2, None, &gradus_core::LabelSource::Human);
        let now = format.write(&record).rows.remove(0);
        let expected = match format {
            Format::Trl => json!([1, true]),
            Format::OpenRlhf => json!([true, "+"]),
            Format::PrmBench => json!([]),
            _ => json!("N/A"),
        };
        assert_eq!(now[field], expected, "{}", format.name());
    }
}

fn examples() -> Vec<(Format, Vec<Value>)> {
    vec![
        (
            Format::Gradus,
            vec![
                json!({"gradus": 1, "problem": {"id": "p1", "text": "1 + 1?", "domain": "math"}}),
                json!({"gradus": 1, "problem": {"id": "p2", "text": "Où est-il ?", "context": ["Là."], "answer": "là",
                    "aliases": ["Là-bas"], "domain": "qa", "source": "mine", "metadata": {"x": null}},
                "solutions": [{"id": "p2/0", "problem_id": "p2", "steps": ["Là."], "outcome": "correct",
                    "annotations": [{"labels": [{"mark": "correct", "value": 0.75,
                        "source": {"monte_carlo": {"successes": 6, "samples": 8}}}], "first_error": "none"}],
                    "scores": {"prm": [0.5]}}]}),
            ],
        ),
        (
            Format::Trl,
            vec![
                json!({"prompt": "What is 2 + 3 * 4?", "completions": ["3 * 4 = 12", "2 + 12 = 15"], "labels": [true, false]}),
                json!({"prompt": "Soft", "completions": ["a", "b", "c"], "labels": [1.0, 0.25, 0], "extra": {"k": [1, null]}}),
                json!({"prompt": "", "completions": [], "labels": [], "note": null}),
            ],
        ),
        (
            Format::Prm800k,
            vec![
                json!({"labeler": "x", "generation": null, "question": {"problem": "What is 2 + 3?", "ground_truth_answer": "5",
                    "pre_generated_steps": ["2 + 3 = 6"]},
                "label": {"steps": [
                    {"completions": [{"text": "No.", "rating": -1, "flagged": false}, {"text": "Add.", "rating": 1}],
                        "human_completion": null, "chosen_completion": 1},
                    {"completions": [{"text": "Six.", "rating": null, "flagged": null}],
                        "human_completion": {"text": "It is 5.", "rating": null, "source": "human"}, "chosen_completion": null},
                    {"completions": [{"text": "So 6.", "rating": -1}], "human_completion": null, "chosen_completion": null}],
                    "total_time": 10, "finish_reason": "found_error"}}),
                json!({"question": {"problem": "?"}, "label": {"steps": [], "finish_reason": "bad_problem"}}),
            ],
        ),
        (
            Format::Prm800kRatings,
            vec![
                json!({"problem": "What is 2 + 3?", "steps": ["Add.", "Hm.", "6"], "ratings": [1, 0, -1], "problem_source": "MATH-train",
                "gt_answer": "5", "n_copies": 1, "unlabelled_tail": ""}),
                json!({"problem": "½?", "steps": ["a", "b"], "ratings": [-1, null], "gt_answer": null, "n_copies": 2}),
                json!({"problem": "Empty", "steps": [], "ratings": []}),
            ],
        ),
        (
            Format::Prm800kPrefixes,
            vec![
                json!({"problem": "What is 2 + 3?", "prefix": ["Add."], "prefix_ratings": [1], "candidates": [
                    {"step": "5", "rating": 1, "final": true}, {"step": "6", "rating": -1}], "in_prmbench": false}),
                json!({"problem": "é", "prefix": ["a", "b"], "prefix_ratings": [0, null], "candidates": []}),
            ],
        ),
        (
            Format::MathShepherd,
            vec![
                json!({"input": "What is 2 + 3? Step 1: 2 + 3 = 5 ки\nStep 2: The answer is: 5 ки",
                "label": "What is 2 + 3? Step 1: 2 + 3 = 5 +\nStep 2: The answer is: 5 -", "task": "GSM8K"}),
                json!({"input": "Odd  spacing? \n Step 1: x  ки  \n\nStep 2:ки tail\n", "label": "Odd  spacing? \n Step 1: x  +  \n\nStep 2:- tail\n",
                "task": null}),
                json!({"input": "Nobody asked ки", "label": "Nobody asked +"}),
            ],
        ),
        (
            Format::OpenRlhf,
            vec![
                json!({"input": "What is 2 + 3? Step 1: 2 + 3 = 5 ки\nStep 2: So 6 ки", "value": ["+", "-"]}),
                json!({"input": "Soft? a ки b ки", "label": [0.5, 1], "extra": "é"}),
                json!({"input": "No question mark.\n\nA step. ки", "value": [true], "label": null}),
            ],
        ),
        (
            Format::PaddleNlp,
            vec![
                json!({"src": ["What is 2 + 3?"], "tgt": [], "responses": ["2 + 3 = 5", "So 6"], "labels": ["+", "-"]}),
                json!({"src": "Plain?", "tgt": null, "responses": ["é"], "labels": [true], "x": 1}),
                json!({"src": ["Two", "turns?"], "tgt": ["Yes."], "responses": [], "labels": []}),
            ],
        ),
        (
            Format::RlhFlow,
            vec![
                json!({"messages": [{"role": "user", "content": "What is 2 + 3? Step 1: 2 + 3 = 5"}, {"role": "assistant", "content": "+"},
                {"role": "user", "content": "Step 2: So 6"}, {"role": "assistant", "content": "-"}]}),
                json!({"conversations": [{"role": "user", "content": "Is it odd?\nYes, é.", "weight": 0}, {"role": "assistant", "content": "+"}],
                "id": 3}),
                json!({"messages": [{"role": "user", "content": "No boundary at all"}, {"role": "assistant", "content": "-"}]}),
            ],
        ),
        (
            Format::ProcessBench,
            vec![
                json!({"id": "gsm8k-0", "generator": "some-model", "problem": "What is 2 + 3?", "steps": ["2 + 3 = 6", "So 6"],
                "final_answer_correct": false, "label": 0}),
                json!({"id": 7, "problem": "Is π > 3?", "steps": ["Yes."], "final_answer_correct": true, "label": -1, "generator": null}),
                json!({"problem": "No id", "steps": [], "final_answer_correct": true, "label": -1, "extra": [1]}),
            ],
        ),
        (
            Format::FirstError,
            vec![
                json!({"problem": "What is 2 + 3?", "steps": ["Add.", "6"], "first_error": 1}),
                json!({"problem": "é", "steps": ["a"], "first_error": null, "extra": 1}),
            ],
        ),
        (
            Format::PrmBench,
            vec![
                json!({"original_question": "What is 2 + 3?", "modified_question": "What is 2 + 3?", "original_process": ["5"],
                "modified_process": ["Add.", "6", "So 6", "Done."], "modified_steps": [2], "error_steps": [2, 3], "reason": "Wrong sum.",
                "idx": "made_up_1", "question": "What is 2 + 3?", "classification": "deception"}),
                json!({"modified_question": "Q", "modified_process": ["a", "b"], "error_steps": [9, 2, 1, 0], "idx": "made_up_2", "classification": "é"}),
                json!({"modified_question": "Q", "modified_process": ["a"], "error_steps": [2], "idx": null}),
                json!({"modified_question": "Q", "modified_process": ["a"], "error_steps": [], "ground_truth": "1"}),
            ],
        ),
        (
            Format::MrBen,
            vec![
                json!({"Question_UUID": "u1", "Subject": "college_math", "Question": "What is 2 + 3?", "Options": "A: 5\nB: 6 ",
                "Ground_Truth_Analysis": "", "Ground_Truth_Answer": "A", "Sampled_Model": "m",
                "Model_Solution_Steps": ["Let us think.", "Step 1: Add.", "Step 1.1: Carry.", "Step 2: It is 6."],
                "Model_Solution_Correctness": "incorrect", "Model_Solution_First_Error_Step": "2", "Model_Solution_Error_Reason": ["Sum."]}),
                json!({"Question_UUID": "u2", "Subject": "biology", "Question": "é?", "Options": "", "Sampled_Model": null,
                "Model_Solution_Steps": ["Step 1: é."], "Model_Solution_Correctness": "correct",
                "Model_Solution_First_Error_Step": "N/A", "Model_Solution_Error_Reason": "N/A"}),
                json!({"Question": "Which?", "Model_Solution_Steps": ["Step 1: a", "Step 2: b"],
                "Model_Solution_Correctness": "incorrect", "Model_Solution_First_Error_Step": "3"}),
            ],
        ),
        (
            Format::MrGsm8k,
            vec![
                json!({"uuid": "u1", "question": "2 nuts and 3?", "ground_truth_solution": "2+3=5\n5 nuts", "ground_truth_answer": 5,
                "model_output_steps": ["Step 1: 2*3=6.", "Step 2: So 5."], "model_output_answer_correctness": "correct",
                "model_output_solution_correctness": "wrong", "model_output_solution_first_error_step": 1,
                "model_output_solution_first_error_reason": "é", "question_type": "POT"}),
                json!({"question": "?", "model_output_steps": ["Step 1: a"], "model_output_solution_correctness": "correct",
                "model_output_solution_first_error_step": "N/A", "ground_truth_solution": "a\n\nb"}),
                json!({"uuid": "u3", "question": "?", "model_output_steps": ["Step 1: a"], "model_output_solution_correctness": "wrong",
                "model_output_solution_first_error_step": "N/A", "model_output_answer_correctness": null}),
            ],
        ),
        (
            Format::ReasonEval,
            vec![
                json!({"id": 0, "question": "What is 2 + 3?", "ground_truth_answer": "5", "generator": "m", "model_output": "1. Add\n2. 6\nDone",
                "model_output_step_format": [["1. Add"], ["2. 6", "Done"]], "model_output_answer_correctness": "wrong",
                "model_output_solution_correctness": "wrong", "model_output_solution_first_error_step": 2}),
                json!({"id": "a", "question": "?", "model_output_step_format": [["é"]], "model_output_answer_correctness": "correct",
                "model_output_solution_correctness": "correct", "model_output_solution_first_error_step": "N/A"}),
                json!({"id": 1, "question": "?", "model_output_step_format": [["two\nlines"], []], "rating": [1, 0], "generator": null}),
            ],
        ),
        (
            Format::StepVerify,
            vec![
                json!({"problem": "2 nuts and 3?", "topic": "Math Word Problem", "reference_solution": "2 + 3 = 5\n 5",
                "student_incorrect_solution": ["2 + 3 = 6", " 6"], "incorrect_index": 0, "incorrect_step": "2 + 3 = 6",
                "error_category": "None of the above", "error_description": null, "dialog_history": [{"text": "é", "user": "Teacher"}]}),
                json!({"problem": "?", "reference_solution": "", "student_incorrect_solution": ["a", "b"], "incorrect_index": 1, "incorrect_step": "b"}),
            ],
        ),
        (
            Format::Eic,
            vec![
                json!({"question": "2 nuts and 3?", "original_solution": "Add.\n2+3=5\n#### 5", "original_answer": 5.0,
                "transformed_solution": "Add.\n2+3=6\n#### 6", "transformed_answer": 6.0, "wrong_step": 2,
                "wrong_type": "calculation_error", "is_single_error": true, "explanation": "é"}),
                json!({"question": "?", "original_solution": "a\n\nb", "original_answer": [1, 2], "transformed_solution": "c",
                "transformed_answer": null, "wrong_step": 7, "wrong_type": "counting_error"}),
            ],
        ),
        (
            Format::Parc,
            vec![
                json!({"question": "2 nuts and 3?", "ground_truth_solution": "2+3=5\nSo 5.", "ground_truth_answer": "5",
                "model_answer": 6, "steps": ["Step 1: Add.", "Step 2: 6"], "error_annotation": {"error_annotations": {"step_level": [
                    {"step_number": 1, "has_error": false, "errors": []},
                    {"step_number": 2, "has_error": true, "errors": [{"error_type": "Mathematical_Error"}]}]}},
                "premise_annotation": {"steps": []}, "file": "x.json", "is_correct": false}),
                json!({"question": "é", "steps": [], "error_annotation": {"error_annotations": {"step_level": []}}}),
            ],
        ),
        (
            Format::BigBenchMistake,
            vec![
                json!({"input": "Sort: b a", "steps": ["a first.", "b first."], "target": "a b", "answer": "b a", "mistake_index": 1}),
                json!({"input": "( [ é", "steps": ["x"], "target": "] )", "answer": "] )", "mistake_index": null}),
                json!({"input": "?", "steps": [], "target": "a", "answer": null, "mistake_index": null, "extra": 0}),
            ],
        ),
        (
            Format::LabelStudio,
            vec![
                json!({"id": 7, "data": {"problem": "What is 2 + 3?", "answer": "5", "steps": [{"text": "2 + 3 = 6"}, {"text": "So 6"}]},
                    "annotations": [
                        {"id": 1001, "completed_by": {"id": 10, "email": "ann@example.org"}, "was_cancelled": false, "result": [
                            {"id": "a", "from_name": "mark_0", "to_name": "step_0", "type": "choices", "value": {"choices": ["-"]}},
                            {"id": "b", "from_name": "category_0", "to_name": "step_0", "type": "choices", "value": {"choices": ["NUMERIC", "LOGIC"]}},
                            {"id": "c", "from_name": "comment_0", "to_name": "step_0", "type": "textarea", "value": {"text": ["It is 5."]}},
                            {"id": "d", "from_name": "mark_1", "to_name": "step_1", "type": "rating", "value": {"rating": 2}},
                            {"id": "e", "from_name": "liked", "to_name": "problem", "type": "choices", "value": {"choices": ["yes"]}}]},
                        {"id": 1002, "completed_by": 11, "was_cancelled": true, "result": []},
                        {"id": 1003, "completed_by": 12, "result": [
                            {"from_name": "first_error", "to_name": "problem", "type": "choices", "value": {"choices": ["1"]}}]}],
                    "predictions": [{"model_version": "some-model", "score": 0.5, "result": [
                        {"from_name": "marks", "to_name": "steps", "type": "paragraphlabels",
                            "value": {"start": "0", "end": "1", "paragraphlabels": ["Correct"]}}]}]}),
                json!({"data": {"problem": "é", "id": 3, "steps": ["a"], "extra": null}, "annotations": []}),
            ],
        ),
        (
            Format::Argilla,
            vec![
                json!({"id": "r1", "fields": {"problem": "What is 2 + 3?", "step_1": "2 + 3 = 5", "step_2": "So 6"},
                    "metadata": {"lesson": 1}, "vectors": {}, "_server_id": null,
                    "responses": {
                        "mark_1": [{"value": "correct", "user_id": "ann"}, {"value": 1, "user_id": "bo"}],
                        "mark_2": [{"value": "incorrect", "user_id": "ann"}],
                        "category_2": [{"value": ["COMPREHENSION"], "user_id": "ann"}],
                        "comment_2": [{"value": "5 was found before.", "user_id": "ann"}],
                        "liked": [{"value": "yes", "user_id": "bo"}]},
                    "suggestions": {"first_error": {"value": "none", "score": 0.9, "agent": "some-model"}}}),
                json!({"fields": {"problem": "é", "steps": [{"role": "assistant", "content": "a"}]}, "responses": {}, "suggestions": {}}),
            ],
        ),
        (
            Format::BestOfN,
            vec![
                json!({"id": "x_0", "problem": "What is 2 + 3?", "gold_answer": "5", "generator": "m", "candidates": [
                {"steps": ["5"], "solution": "5", "answer": "5", "correct": true, "prm_scores": {"a": [0.5], "b": [1]}},
                {"steps": [], "correct": null, "prm_scores": {}, "extra": "é"}]}),
                json!({"id": 3, "problem": "None", "generator": "m", "candidates": []}),
            ],
        ),
        (
            Format::CandidateOutcomes,
            vec![
                json!({"id": 7, "question": "What is 2 + 3?", "steps": [["Add.", "5"], ["6"], []], "labels": [true, false, false]}),
                json!({"question": "é", "steps": [], "labels": [], "extra": null}),
            ],
        ),
        (
            Format::ManyModels,
            vec![
                json!({"id": "x-#1", "question": "What is 2 + 3?", "gold": "# 5", "solutions": [
                {"model": "m", "output": "{\"answer\": \"5\"}", "answer": "5", "correct": true},
                {"model": "n", "output": "é", "answer": null, "correct": false}]}),
                json!({"id": 1, "question": "?", "gold": "-1", "solutions": []}),
            ],
        ),
        (
            Format::Gsm8kSolutions,
            vec![
                json!({"question": "2 nuts and 3?", "ground_truth": "2+3=<<2+3=5>>5\nA: 5",
                "small": {"is_correct": false, "solution": "2*3=<<2*3=6>>6\nA: 6"},
                "large": {"is_correct": true, "solution": "\n\n2+3=5", "extra": "é"}}),
                json!({"question": "?", "ground_truth": "no answer line", "only": {"is_correct": true, "solution": ""}, "other": {"a": 1}}),
            ],
        ),
        (
            Format::Musique,
            vec![
                json!({"id": "2hop__1_2", "question": "Where was the author of Blue Hills born?",
                "paragraphs": [{"idx": 0, "title": "Blue: Hills", "paragraph_text": "By Ada Poe.", "is_supporting": true},
                    {"idx": 1, "title": "", "paragraph_text": "", "is_supporting": false}],
                "question_decomposition": [{"id": 1, "question": "Blue Hills >> author", "answer": "Ada → Poe", "paragraph_support_idx": 0},
                    {"id": 2, "question": "Where was #1 born?", "answer": "York", "paragraph_support_idx": null}],
                "answer": "York", "answer_aliases": ["City of York"], "answerable": true}),
                json!({"id": "x", "question": "é?", "question_decomposition": [], "answer": "a", "answer_aliases": [], "paragraphs": null}),
            ],
        ),
        (
            Format::Spatial,
            vec![
                json!({"story": ["B is left of A.", "C is above B."], "question": "Where is C from A?", "label": "upper-left", "k_hop": 2}),
                json!({"story": "B is left of A. C is above B.", "question": "Is A right of B?", "answer": ["Yes"], "q_type": "YN"}),
                json!({"story": [], "question": "é?", "answer": null}),
            ],
        ),
        (
            Format::Outputs,
            vec![
                json!({"problem": "What is 2 + 3?", "response": "Add.\n\nIt is 5.", "answer": "5", "temperature": 0.7}),
                json!({"id": "q1", "problem": "é?", "steps": ["Add.", "6"], "generator": "m", "correct": false}),
                json!({"problem": "Empty", "response": "", "answer": null}),
            ],
        ),
        (
            Format::Gsm8k,
            vec![
                json!({"question": "2 nuts and 3?", "answer": "2+3=<<2+3=5>>5 nuts.\nIn all 5.\n#### 5"}),
                json!({"question": "é?", "answer": "a\n\n b ####5", "extra": null}),
                json!({"question": "?", "answer": "#### 1,000"}),
            ],
        ),
        (
            Format::Math,
            vec![
                json!({"problem": "What is $2 + 3$?", "level": "Level 1", "type": "Algebra", "solution": "Add.\n\nIt is $\\boxed{\\frac{5}{1}}$."}),
                json!({"problem": "é", "level": "Level 2", "subject": "Algebra", "solution": "Three.\n\n\n", "unique_id": "test/1.json", "answer": "3"}),
                json!({"problem": "No box", "type": "T", "solution": "", "idx": 0, "answer": null}),
            ],
        ),
        (
            Format::Problems,
            vec![
                json!({"id": 60, "problem": "What is 2 + 3?", "question": "What is 2 + 3?", "answer": 5.0, "url": "https://example.com"}),
                json!({"id": 8, "question": "Solve $x^2 = 4$.", "final_answer": ["-2", "2"], "solution": ["By roots.\n\nSo.", "Look."],
                "context": null, "is_multiple_answer": true, "unit": null}),
                json!({"question": "é?", "answer": "$5$", "solution": "One.\n\nTwo.", "source": "exam"}),
                json!({"problem": "Both", "answer": "2", "final_answer": ["2"]}),
            ],
        ),
    ]
}

/// Labels that were added to a task or a record since it was read are written, and the rest of it stays.
#[test]
fn changed_labels_are_written_to_labeling_tools() {
    let all = examples();
    for format in [Format::LabelStudio, Format::Argilla] {
        let (_, rows) = all.iter().find(|(other, _)| *other == format).unwrap();
        let mut record = read(&rows[0]).1.record;
        let by = LabelSource::Person { name: "cy".to_owned() };
        record.solutions[0].annotations.push(Annotation::from_first_error(2, Some(0), &by));
        let written = format.write(&record).rows.remove(0);
        assert_eq!(written["id"], rows[0]["id"]);
        let again = read(&written).1.record;
        let names = |record: &gradus_core::Record| -> Vec<_> {
            record.solutions[0].annotations.iter().map(|by| (by.source_name(), by.first_error)).collect()
        };
        let sorted = |mut names: Vec<(String, gradus_core::FirstError)>| {
            names.sort_by_key(|name| format!("{name:?}"));
            names
        };
        assert_eq!(sorted(names(&again)), sorted(names(&record)), "{}", format.name());
        assert_eq!(again.solutions[0].steps, record.solutions[0].steps);
    }
}

//! A random row of every format, as far as the format can express it.

use gradus_data::readers::Format;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::random::*;

/// A row of this format.
pub(super) fn row_of(format: Format) -> BoxedStrategy<Value> {
    match format {
        Format::Trl => {
            let must = (text(), steps_with(label())).prop_map(|(prompt, (completions, labels))| {
                json!({"prompt": prompt, "completions": completions, "labels": labels})
            });
            record(must, vec![])
        }
        Format::Prm800k => prm800k(),
        Format::LabelStudio => label_studio(),
        Format::Argilla => argilla(),
        Format::Prm800kRatings => {
            let rating = prop_oneof![rating(), Just(Value::Null)].boxed();
            let must = (text(), steps_with(rating)).prop_map(
                |(problem, (steps, ratings))| json!({"problem": problem, "steps": steps, "ratings": ratings}),
            );
            record(must, vec![("gt_answer", string()), ("problem_source", string()), ("n_copies", number())])
        }
        Format::Prm800kPrefixes => {
            let rating = || prop_oneof![rating(), Just(Value::Null)].boxed();
            let candidate = record(
                (text(), rating()).prop_map(|(step, rating)| json!({"step": step, "rating": rating})),
                vec![("final", flag())],
            );
            let must = (text(), steps_with(rating()), vec(candidate, 0..4)).prop_map(
                |(problem, (prefix, ratings), candidates)| {
                    json!({"problem": problem, "prefix": prefix, "prefix_ratings": ratings, "candidates": candidates})
                },
            );
            record(must, vec![("in_prmbench", flag())])
        }
        Format::FirstError => {
            let must = (text(), steps_with_index()).prop_map(
                |(problem, (steps, error))| json!({"problem": problem, "steps": steps, "first_error": error}),
            );
            record(must, vec![])
        }
        Format::Eic => {
            let must = (text(), worked("#### "), worked("#### "), -1..6i64).prop_map(
                |(question, original, transformed, wrong)| {
                    json!({"question": question, "original_solution": original,
                        "transformed_solution": transformed, "wrong_step": wrong})
                },
            );
            record(
                must,
                vec![
                    ("original_answer", prop_oneof![string(), number(), json()].boxed()),
                    ("transformed_answer", json()),
                    ("wrong_type", string()),
                ],
            )
        }
        Format::Parc => {
            let must = (text(), vec((text(), any::<bool>()), 0..4)).prop_map(|(question, steps)| {
                let (steps, errors): (Vec<String>, Vec<bool>) = steps.into_iter().unzip();
                let marked = (1..)
                    .zip(errors)
                    .map(|(number, wrong)| json!({"step_number": number, "has_error": wrong, "errors": []}));
                let marked = json!({"error_annotations": {"step_level": marked.collect::<Vec<_>>()}});
                json!({"question": question, "steps": steps, "error_annotation": marked})
            });
            let may = vec![
                ("ground_truth_solution", string()),
                ("ground_truth_answer", string()),
                ("model_answer", prop_oneof![string(), number()].boxed()),
                ("is_correct", flag()),
                ("file", string()),
            ];
            record(must, may)
        }
        Format::Spatial => {
            let story = prop_oneof![string(), texts().prop_map(Value::from)];
            let answer = prop_oneof![string(), texts().prop_map(Value::from), Just(Value::Null)];
            let must = (story, text(), any::<bool>(), answer).prop_map(|(story, question, label, answer)| {
                json!({"story": story, "question": question, if label { "label" } else { "answer" }: answer})
            });
            record(must, vec![("q_type", string()), ("k_hop", number())])
        }
        Format::Outputs => {
            let responses = text().prop_map(|response| json!({"response": response}));
            let steps = vec(text(), 1..4).prop_map(|steps| json!({"steps": steps}));
            let must = (text(), prop_oneof![responses, steps]).prop_map(|(problem, mut row)| {
                row["problem"] = problem.into();
                row
            });
            let may = vec![
                ("id", "[a-z#/é]{1,8}".prop_map(Value::from).boxed()),
                ("generator", string()),
                ("answer", string()),
                ("correct", flag()),
            ];
            record(must, may)
        }
        Format::MathShepherd => {
            let must = (tagged(), vec(any::<bool>(), 5)).prop_map(|((pieces, tail), marks)| {
                let join = |tag: &dyn Fn(usize) -> &'static str| {
                    let body: String =
                        pieces.iter().enumerate().map(|(i, piece)| format!("{piece}{}", tag(i))).collect();
                    body + &tail
                };
                let label = join(&|index| if marks[index] { "+" } else { "-" });
                json!({"input": join(&|_| "ки"), "label": label})
            });
            record(must, vec![("task", string())])
        }
        Format::OpenRlhf => {
            let must =
                (tagged(), vec(label(), 5), any::<bool>()).prop_map(|((pieces, tail), labels, value)| {
                    let input: String = pieces.iter().map(|piece| format!("{piece}ки")).collect();
                    let key = if value { "value" } else { "label" };
                    json!({"input": input + &tail, key: labels[..pieces.len()]})
                });
            record(must, vec![])
        }
        Format::PaddleNlp => {
            let src = prop_oneof![string(), texts().prop_map(Value::from)];
            let must = (src, steps_with(label())).prop_map(|(src, (responses, labels))| {
                json!({"src": src, "tgt": [], "responses": responses, "labels": labels})
            });
            record(must, vec![])
        }
        Format::RlhFlow => {
            let turn = |role: &'static str, content: BoxedStrategy<String>| {
                record(content.prop_map(move |content| json!({"role": role, "content": content})), vec![])
            };
            let user = turn("user", tagged().prop_map(|(pieces, tail)| pieces.concat() + &tail).boxed());
            let assistant =
                turn("assistant", prop_oneof![Just("+".to_owned()), Just("-".to_owned())].boxed());
            let must = (vec((user, assistant), 1..4), any::<bool>()).prop_map(|(turns, messages)| {
                let turns: Vec<Value> =
                    turns.into_iter().flat_map(|(user, assistant)| [user, assistant]).collect();
                json!({if messages { "messages" } else { "conversations" }: turns})
            });
            record(must, vec![])
        }
        Format::ProcessBench => {
            let must = (text(), steps_with_index(), any::<bool>()).prop_map(|(problem, (steps, error), correct)| {
                let label = error.map_or(-1, |index| index as i64);
                json!({"problem": problem, "steps": steps, "label": label, "final_answer_correct": correct})
            });
            record(must, vec![("id", id()), ("generator", string())])
        }
        Format::PrmBench => {
            let must = (text(), texts(), vec(-1..7i64, 0..4)).prop_map(|(question, process, errors)| {
                json!({"modified_question": question, "modified_process": process, "error_steps": errors})
            });
            let may = vec![
                ("original_question", string()),
                ("original_process", texts().prop_map(Value::from).boxed()),
                ("idx", id()),
                ("classification", string()),
                ("ground_truth", json()),
            ];
            record(must, may)
        }
        Format::MrBen => {
            let numbers = vec![json!("N/A"), json!("1"), json!("2"), json!(3), json!("04"), json!(99)];
            let words = one_of(vec![json!("correct"), json!("incorrect")]);
            let must = (text(), numbered_steps(), one_of(numbers), words).prop_map(
                |(question, steps, number, word)| {
                    json!({"Question": question, "Model_Solution_Steps": steps,
                    "Model_Solution_First_Error_Step": number, "Model_Solution_Correctness": word})
                },
            );
            let may = vec![
                ("Question_UUID", "[a-z]{1,5}".prop_map(Value::from).boxed()),
                ("Options", string()),
                ("Subject", string()),
                ("Ground_Truth_Answer", string()),
                ("Ground_Truth_Analysis", string()),
                ("Sampled_Model", string()),
                ("Model_Solution_Error_Reason", json()),
            ];
            record(must, may)
        }
        Format::MrGsm8k => {
            let numbers = vec![json!("N/A"), json!(1), json!(2), json!("3"), json!(99)];
            let word = || one_of(vec![json!("correct"), json!("wrong")]);
            let must = (text(), numbered_steps(), one_of(numbers), word()).prop_map(|(question, steps, number, word)| {
                json!({"question": question, "model_output_steps": steps,
                    "model_output_solution_first_error_step": number, "model_output_solution_correctness": word})
            });
            let may = vec![
                ("uuid", id()),
                ("ground_truth_solution", string()),
                ("ground_truth_answer", prop_oneof![string(), number()].boxed()),
                ("model_output_answer_correctness", word()),
                ("question_type", string()),
            ];
            record(must, may)
        }
        Format::ReasonEval => {
            let step = texts().prop_map(Value::from).boxed();
            let word = || one_of(vec![json!("correct"), json!("wrong")]);
            let rated = (text(), vec((step.clone(), rating()), 0..4)).prop_map(|(question, steps)| {
                let (steps, rating): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
                json!({"question": question, "model_output_step_format": steps, "rating": rating})
            });
            let placed =
                (text(), vec(step, 0..4), any::<prop::sample::Index>()).prop_map(|(question, steps, at)| {
                    let number = match at.index(steps.len() + 1) {
                        0 => json!("N/A"),
                        number => json!(number),
                    };
                    json!({"question": question, "model_output_step_format": steps,
                    "model_output_solution_first_error_step": number})
                });
            let may = vec![
                ("id", id()),
                ("generator", string()),
                ("ground_truth_answer", string()),
                ("model_output", string()),
                ("model_output_answer_correctness", word()),
                ("model_output_solution_correctness", word()),
            ];
            record(prop_oneof![rated, placed], may)
        }
        Format::StepVerify => {
            let must = (text(), vec(text(), 1..4), any::<prop::sample::Index>(), text()).prop_map(
                |(problem, steps, at, step)| {
                    let index = at.index(steps.len());
                    json!({"problem": problem, "student_incorrect_solution": steps, "incorrect_index": index,
                        "incorrect_step": step})
                },
            );
            record(
                must,
                vec![("reference_solution", string()), ("topic", string()), ("dialog_history", json())],
            )
        }
        Format::BigBenchMistake => {
            let must = (text(), steps_with_index()).prop_map(
                |(input, (steps, mistake))| json!({"input": input, "steps": steps, "mistake_index": mistake}),
            );
            record(must, vec![("target", string()), ("answer", string())])
        }
        Format::BestOfN => best_of_n(),
        Format::CandidateOutcomes => {
            let must = (text(), vec((texts(), any::<bool>()), 0..4)).prop_map(|(question, candidates)| {
                let (steps, labels): (Vec<_>, Vec<_>) = candidates.into_iter().unzip();
                json!({"question": question, "steps": steps, "labels": labels})
            });
            record(must, vec![("id", id())])
        }
        Format::ManyModels => {
            let solution = record(
                text().prop_map(|output| json!({"output": output})),
                vec![("model", string()), ("answer", string()), ("correct", flag())],
            );
            let gold = prop_oneof![string(), text().prop_map(|gold| format!("# {gold}").into()), number()];
            let must = (text(), gold, vec(solution, 0..4)).prop_map(|(question, gold, solutions)| {
                json!({"question": question, "gold": gold, "solutions": solutions})
            });
            record(must, vec![("id", id())])
        }
        Format::Gsm8kSolutions => {
            let solution = record(
                (worked("A: "), any::<bool>())
                    .prop_map(|(solution, correct)| json!({"solution": solution, "is_correct": correct})),
                vec![],
            );
            let must = (text(), worked("A: "), btree_map("m_[a-z]{1,3}", solution, 1..4)).prop_map(
                |(question, truth, models)| {
                    let mut fields = json!({"question": question, "ground_truth": truth});
                    fields.as_object_mut().expect("an object").extend(models);
                    fields
                },
            );
            record(must, vec![])
        }
        Format::Gsm8k => {
            let must = (text(), text(), worked("#### ")).prop_map(|(question, lead, worked)| {
                let worked = if worked.contains("####") { worked } else { worked + "\n####" };
                json!({"question": question, "answer": lead + &worked})
            });
            record(must, vec![])
        }
        Format::Musique => {
            let paragraph = record(
                text().prop_map(|text| json!({"paragraph_text": text})),
                vec![("title", string()), ("idx", number()), ("is_supporting", flag())],
            );
            let hop = record(
                (text(), text())
                    .prop_map(|(question, tail)| json!({"question": format!("{question} → {tail}")})),
                vec![("answer", string()), ("id", number()), ("paragraph_support_idx", number())],
            );
            let must = (text(), vec(hop, 0..4))
                .prop_map(|(question, hops)| json!({"question": question, "question_decomposition": hops}));
            let may = vec![
                ("id", id()),
                ("answer", string()),
                ("answer_aliases", texts().prop_map(Value::from).boxed()),
                ("paragraphs", vec(paragraph, 0..4).prop_map(Value::from).boxed()),
                ("answerable", flag()),
            ];
            record(must, may)
        }
        Format::Math => {
            let must = (text(), prop_oneof![text(), worked("\\boxed{")], one_of(vec!["level".into(), "type".into()]))
                .prop_map(|(problem, solution, key)| {
                    json!({"problem": problem, "solution": solution, key.as_str().expect("a key"): "x"})
                });
            record(must, vec![("answer", prop_oneof![string(), number()].boxed()), ("unique_id", id())])
        }
        Format::Problems => {
            let answers = texts().prop_map(Value::from).boxed();
            let must =
                (text(), any::<bool>(), prop_oneof![string(), number()], answers.clone(), any::<bool>())
                    .prop_map(|(text, problem, answer, answers, plain)| {
                        let key = if problem { "problem" } else { "question" };
                        if plain {
                            json!({key: text, "answer": answer})
                        } else {
                            json!({key: text, "final_answer": answers})
                        }
                    });
            let solution =
                prop_oneof![string(), worked("\n\n").prop_map(Value::from), answers.clone()].boxed();
            let may = vec![
                ("id", id()),
                ("solution", solution),
                ("question", string()),
                ("answer", string()),
                ("final_answer", answers),
                ("unit", string()),
            ];
            record(must, may)
        }
        other => unreachable!("no records of {}", other.name()),
    }
}

fn best_of_n() -> BoxedStrategy<Value> {
    let score = prop_oneof![(0.0..1.0).prop_map(Value::from), Just(json!(0)), Just(json!(1))];
    let candidate = texts().prop_flat_map(move |steps| {
        let column = vec(score.clone(), steps.len()).prop_map(Value::from);
        let scores = btree_map("[a-z]{1,3}", column, 0..3)
            .prop_map(|columns| Value::Object(columns.into_iter().collect()));
        record(
            Just(json!({"steps": steps})),
            vec![
                ("solution", string()),
                ("answer", string()),
                ("correct", flag()),
                ("prm_scores", scores.boxed()),
            ],
        )
    });
    let must = (text(), vec(candidate, 0..3))
        .prop_map(|(problem, candidates)| json!({"problem": problem, "candidates": candidates}));
    record(must, vec![("id", id()), ("gold_answer", string()), ("generator", string())])
}

fn prm800k() -> BoxedStrategy<Value> {
    let completion = record(
        text().prop_map(|text| json!({"text": text})),
        vec![("rating", rating()), ("flagged", flag())],
    );
    let step =
        (vec(completion.clone(), 0..3), option::of(any::<prop::sample::Index>()), option::of(completion))
            .prop_map(|(completions, chosen, human)| {
                let chosen = chosen.filter(|_| !completions.is_empty()).map(|at| at.index(completions.len()));
                json!({"completions": completions, "chosen_completion": chosen, "human_completion": human})
            });
    let label = record(
        vec(step, 0..4).prop_map(|steps| json!({"steps": steps})),
        vec![("finish_reason", string()), ("total_time", number())],
    );
    let question = record(
        text().prop_map(|problem| json!({"problem": problem})),
        vec![("ground_truth_answer", string()), ("pre_generated_steps", json())],
    );
    let must = (question, label).prop_map(|(question, label)| json!({"question": question, "label": label}));
    record(must, vec![("labeler", string()), ("generation", number())])
}

fn label_studio() -> BoxedStrategy<Value> {
    let step = prop_oneof![string(), text().prop_map(|text| json!({"text": text}))].boxed();
    let result = (0..1usize, one_of(vec![json!("+"), json!("0"), json!("Wrong")]), text()).prop_map(
        |(step, mark, comment)| {
            json!([{"from_name": format!("mark_{step}"), "type": "choices", "value": {"choices": [mark]}},
                {"from_name": format!("comment_{step}"), "type": "textarea", "value": {"text": [comment]}},
                {"from_name": "other", "type": "number", "value": {"number": 3}}])
        },
    );
    let annotation = record(
        result.clone().prop_map(|result| json!({"result": result})),
        vec![
            ("completed_by", prop_oneof![number(), Just(json!({"email": "a@b"})).boxed()].boxed()),
            ("was_cancelled", flag()),
        ],
    );
    let prediction = record(
        result.prop_map(|result| json!({"result": result})),
        vec![("model_version", string()), ("score", number())],
    );
    let data = record(
        (text(), vec(step, 1..4)).prop_map(|(problem, steps)| json!({"problem": problem, "steps": steps})),
        vec![("id", id()), ("answer", prop_oneof![string(), number()].boxed())],
    );
    let must = (data, vec(annotation, 0..3))
        .prop_map(|(data, annotations)| json!({"data": data, "annotations": annotations}));
    record(must, vec![("id", number()), ("predictions", vec(prediction, 0..3).prop_map(Value::from).boxed())])
}

fn argilla() -> BoxedStrategy<Value> {
    let fields = (text(), texts(), text()).prop_map(|(problem, mut steps, last)| {
        steps.push(last);
        json!({"problem": problem, "steps": steps})
    });
    let numbered = (text(), text(), text())
        .prop_map(|(problem, one, two)| json!({"problem": problem, "step_0": one, "step_1": two}));
    let fields = record(prop_oneof![fields, numbered], vec![("answer", string())]);
    let answer = (
        one_of(vec![json!("+"), json!("-"), json!(1), json!(3)]),
        one_of(vec![json!("u"), json!("v"), Value::Null]),
    );
    let answers = vec(answer.prop_map(|(value, user)| json!({"value": value, "user_id": user})), 0..3);
    let suggestion = (one_of(vec![json!("+"), json!(2), Value::Null]), option::of("[a-z]{1,4}"))
        .prop_map(|(value, agent)| json!({"value": value, "score": 0.5, "agent": agent}));
    let must = (fields, answers, suggestion).prop_map(|(fields, answers, suggestion)| {
        json!({"fields": fields, "responses": {"mark_0": answers, "liked": [{"value": "yes", "user_id": "u"}]},
            "suggestions": {"mark_0": suggestion}})
    });
    record(must, vec![("id", id()), ("metadata", json()), ("_server_id", string())])
}

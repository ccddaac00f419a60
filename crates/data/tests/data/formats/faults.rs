//! Bad records: one sentence each, with the file, the line and the field.

use serde_json::{Value, json};

use super::Scratch;

#[test]
fn bad_records_are_refused_with_place_and_field() {
    let scratch = Scratch::new();
    let said: Vec<String> = bad_records()
        .into_iter()
        .flat_map(|row| {
            let path = scratch.file("bad.jsonl", format!("\n{row}\n"));
            scratch.outcomes(&path)
        })
        .collect();
    insta::assert_snapshot!("bad_records", said.join("\n"));
}

fn bad_records() -> Vec<Value> {
    vec![
        json!({"data": {"problem": "What?", "steps": []}, "annotations": []}),
        json!({"unheard": 1, "of": 2}),
        json!({"gradus": 2, "problem": {"id": "a", "text": "b"}}),
        json!({"gradus": 1, "problem": {"id": "a"}}),
        json!({"gradus": 1, "problem": {"id": "a", "text": "b"}, "solutions": [{"id": "c", "problem_id": "z"}]}),
        json!({"prompt": "Q", "completions": ["a"], "labels": [true, false]}),
        json!({"prompt": "Q", "completions": ["a", 2], "labels": [true, false]}),
        json!({"prompt": "Q", "completions": ["a"], "labels": [1.5]}),
        json!({"prompt": null, "completions": ["a"], "labels": [true]}),
        json!({"question": {"problem": "Q"}, "label": {"steps": [{"completions": [{"text": "a", "rating": 2}], "chosen_completion": 0}]}}),
        json!({"question": {"problem": "Q"}, "label": {"steps": [{"completions": [], "chosen_completion": 3}]}}),
        json!({"problem": "Q", "steps": ["a", "b"], "ratings": [1]}),
        json!({"problem": "Q", "steps": ["a"], "ratings": [5]}),
        json!({"input": "Q? a ки b ки", "label": "Q? a + b"}),
        json!({"input": "Q? a ки b ки", "label": "Q? a + c -"}),
        json!({"input": "Q? a ки b ки", "value": ["+"]}),
        json!({"input": "Q? a ки", "value": ["maybe"]}),
        json!({"src": {"q": 1}, "responses": ["a"], "labels": ["+"]}),
        json!({"src": "Q", "responses": ["a"], "labels": ["+", "+"]}),
        json!({"messages": [{"role": "user", "content": "Q? a"}, {"role": "assistant", "content": "+"}, {"role": "user", "content": "b"}]}),
        json!({"messages": [{"role": "system", "content": "Q? a"}, {"role": "assistant", "content": "+"}]}),
        json!({"messages": [{"role": "user", "content": "Q? a"}, {"role": "assistant", "content": "+"},
            {"role": "user", "content": "b"}, {"role": "assistant", "content": "perhaps"}]}),
        json!({"problem": "Q", "steps": ["a"], "label": 1, "final_answer_correct": false}),
        json!({"problem": "Q", "steps": ["a"], "label": 0, "final_answer_correct": "no"}),
        json!({"modified_question": "Q", "modified_process": ["a"], "error_steps": ["one"]}),
        json!({"Question": "Q", "Model_Solution_Steps": ["Step 1: a"], "Model_Solution_First_Error_Step": "first",
            "Model_Solution_Correctness": "incorrect"}),
        json!({"Question": "Q", "Model_Solution_Steps": ["Step 1: a"], "Model_Solution_First_Error_Step": "1"}),
        json!({"question": "Q", "model_output_steps": ["Step 1: a"], "model_output_solution_first_error_step": 1,
            "model_output_solution_correctness": "wrong", "model_output_answer_correctness": 0}),
        json!({"question": "Q", "model_output_step_format": [["a"]], "model_output_solution_first_error_step": 2}),
        json!({"question": "Q", "model_output_step_format": ["a"], "rating": [1]}),
        json!({"question": "Q", "model_output_step_format": [["a"]], "rating": [1, 1]}),
        json!({"problem": "Q", "student_incorrect_solution": ["a"], "incorrect_index": 1}),
        json!({"input": "Q", "steps": ["a"], "mistake_index": 4}),
        json!({"problem": "Q", "candidates": [{"steps": ["a"], "prm_scores": {"p": [0.1, 0.2]}}]}),
        json!({"problem": "Q", "candidates": [{"steps": ["a"]}, {"steps": "b"}]}),
        json!({"question": "Q", "steps": [["a"], ["b"]], "labels": [true]}),
        json!({"question": "Q", "steps": [["a"]], "labels": [0.5]}),
        json!({"question": "Q", "gold": "1", "solutions": [{"model": "m"}]}),
        json!({"question": 5, "answer": "a\n#### 5"}),
        json!({"question": "Q", "question_decomposition": [{"answer": "a"}]}),
        json!({"problem": "Q", "type": "t", "solution": "s", "answer": ["a"]}),
        json!({"problem": "Q", "final_answer": [1]}),
        json!({"prompt": "Q", "completions": ["a"], "labels": [true], "gradus:joined": true}),
        json!({"messages": [{"role": "user", "content": "Q? a", "gradus:x": 1}, {"role": "assistant", "content": "+"}]}),
    ]
}

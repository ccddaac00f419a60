//! Embedders: served, recorded and local.

use gradus_backend::{Embedder, EmbedderSettings};
use gradus_core::contracts::Embed;
use gradus_llm::scripted::server::{Act, Seen, Server};
use serde_json::{Value, json};

use crate::{endpoints, model, wait};

/// The length of each text as its vector, in another order than asked.
fn lengths(seen: &Seen) -> Value {
    let texts: Vec<String> = serde_json::from_value(seen.body["input"].clone()).unwrap();
    let entry = |(index, text): (usize, &String)| json!({"index": index, "embedding": [text.len(), 1]});
    let mut data: Vec<Value> = texts.iter().enumerate().map(entry).collect();
    data.reverse();
    json!({"data": data, "usage": {"prompt_tokens": texts.len()}})
}

fn served(server: &Server) -> EmbedderSettings {
    EmbedderSettings {
        model: Some("m".into()),
        endpoints: endpoints(&[server]),
        ..EmbedderSettings::default()
    }
}

#[test]
fn vectors_come_in_the_order_of_the_texts() {
    let server = Server::in_thread(|_, seen| Act::ok(&lengths(seen)));
    let embedder = Embedder::open(&served(&server)).unwrap();
    assert_eq!((embedder.name.as_str(), embedder.fingerprint()), ("m", "endpoint m"));
    let texts: Vec<String> = (0..100).map(|length| "x".repeat(length)).collect();
    let found = wait(embedder.embed(texts)).unwrap();
    assert_eq!((found.dimension, found.usage.prompt_tokens, server.seen().len()), (2, 100, 2));
    assert!(found.rows().enumerate().all(|(length, row)| row == [length as f32, 1.0]));
    assert_eq!(server.seen()[0].path, "/v1/embeddings");
    assert_eq!(wait(embedder.embed(Vec::new())).unwrap().values.len(), 0);
}

#[test]
fn answers_that_are_no_vectors_are_refused() {
    for (answer, words) in [
        (json!({"data": []}), "`data` of the answer has 0 entries instead of 2"),
        (
            json!({"data": [{"embedding": [1]}, {"embedding": [1, 2]}]}),
            "`data[1].embedding` of the answer has 2",
        ),
        (json!({"data": [{"embedding": []}, {"embedding": []}]}), "`data[0].embedding` of the answer has 0"),
        (
            json!({"data": [{"embedding": [1]}, {"embedding": [null]}]}),
            "`data[1].embedding[0]`: invalid type",
        ),
        (json!({"vectors": []}), "missing field `data`"),
    ] {
        let server = Server::in_thread(move |_, _| Act::ok(&answer));
        let embedder = Embedder::open(&served(&server)).unwrap();
        let error = wait(embedder.embed(vec!["a".into(), "b".into()])).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn recorded_vectors_stand_in_for_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vectors.jsonl");
    let local =
        Embedder::open(&EmbedderSettings { model: Some(model("bert-mean")), ..Default::default() }).unwrap();
    let texts = vec!["a cat".to_owned(), "a dog".to_owned()];
    let embedded = wait(local.embed(texts.clone())).unwrap();
    let line = |(text, row): (&String, &[f32])| json!({"text": text, "embedding": row}).to_string() + "\n";
    std::fs::write(&path, texts.iter().zip(embedded.rows()).map(line).collect::<String>()).unwrap();
    let settings = EmbedderSettings { recorded: Some(path.clone()), ..EmbedderSettings::default() };
    let recorded = Embedder::open(&settings).unwrap();
    assert_eq!(wait(recorded.embed(texts)).unwrap().values, embedded.values);
    let error = wait(recorded.embed(vec!["a bird".into()])).unwrap_err().to_string();
    assert_eq!(error, "no vector is recorded for \"a bird\"");
    std::fs::write(&path, "{\"text\": \"a\", \"embedding\": [1]}\n{\"text\": \"b\", \"embedding\": [1, 2]}")
        .unwrap();
    let error = Embedder::open(&settings).err().unwrap().to_string();
    assert!(error.ends_with("vectors.jsonl, line 2: a vector of 2 numbers, expected 1"), "{error}");
}

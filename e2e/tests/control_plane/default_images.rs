//! The default images as they are given, by flags and by a variable of the environment, to the process and to `plan`:
//! another mirror changes nothing of what runs, and the next edit takes it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::testing::control_plane::{await_ready, in_space, plain, state};
use e2e::testing::kubelet::Kubelet;
use e2e::testing::operator::{Launch, Operator, binary};
use e2e::testing::permissions::as_installed;
use e2e::testing::{Space, await_answer};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use memcached_operator::kernel::desired::DefaultImages;
use memcached_operator::kernel::desired::meta::DEFAULT_IMAGES;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

const NAME: &str = "cache";
const NOTHING: &str = "Nothing would change; resources looked at: 1.\n";

/// The images of a mirror.
fn mirror(name: &str) -> DefaultImages {
    let image = |path: &str| format!("{name}.example/{path}").into();
    DefaultImages {
        memcached: image("library/memcached:1.6"),
        exporter: image("prom/memcached-exporter:v0.15.4"),
        operator: image("c5c3/memcached-operator-rs:0.1.0"),
    }
}

/// The flags for two of the images.
fn flags(images: &DefaultImages) -> [OsString; 2] {
    let DefaultImages { memcached, exporter: _, operator } = images;
    [format!("--memcached-image={memcached}"), format!("--operator-image={operator}")].map(Into::into)
}

/// The variable for the third.
fn variable(images: &DefaultImages) -> (OsString, OsString) {
    ("MEMCACHED_OPERATOR_EXPORTER_IMAGE".into(), images.exporter.to_string().into())
}

/// What somebody has to start the operator's program with.
struct Program<'a> {
    space: &'a Space,
    path: PathBuf,
    kubeconfig: PathBuf,
    folder: TempDir,
}

impl<'a> Program<'a> {
    async fn of(space: &'a Space) -> Result<Self> {
        let kubeconfig = as_installed(space.cluster()).await?;
        Ok(Self { space, path: binary()?, kubeconfig, folder: TempDir::new()? })
    }

    /// Starts the operator of this namespace.
    async fn run(&self, images: &DefaultImages) -> Result<Operator> {
        let namespace = format!("--watch-namespaces={}", self.space.name());
        let launch = Launch {
            program: self.path.clone(),
            kubeconfig: self.kubeconfig.clone(),
            log: self.folder.path().join("log"),
            args: flags(images).into_iter().chain([namespace.into()]).collect(),
            env: vec![variable(images)],
        };
        Operator::start(&launch).await
    }

    /// What `plan` prints, and its exit code.
    async fn plan(&self, images: &DefaultImages, more: &[&str]) -> Result<(String, Option<i32>)> {
        let mut command = Command::new(&self.path);
        command.args(["plan", "--namespace", self.space.name(), "--kubeconfig"]).arg(&self.kubeconfig);
        let output = command.args(flags(images)).envs([variable(images)]).args(more).output().await?;
        let code = output.status.code();
        ensure!(code != Some(1), "{}", String::from_utf8_lossy(&output.stderr));
        Ok((String::from_utf8(output.stdout)?, code))
    }

    /// What `plan` says about the image of each container, were this file applied: as it is, and as it would be.
    async fn planned(&self, images: &DefaultImages, file: &Path) -> Result<Vec<[Value; 2]>> {
        let file = file.to_str().context("a path in UTF-8")?;
        let (said, code) = self.plan(images, &["-o", "json", "-f", file]).await?;
        ensure!(code == Some(2), "{code:?}: {said}");
        let plan: Value = serde_json::from_str(&said).with_context(|| said.clone())?;
        let children = plan["resources"][0]["children"].as_array().context("it changes children")?;
        let workload = children.iter().find(|it| it["kind"] == "Deployment").context("one of pods")?;
        let fields = workload["fields"].as_array().context("it changes fields")?;
        let of = |container: &str| {
            let path = format!("spec.template.spec.containers[name={container}].image");
            let field = fields.iter().find(|field| field["path"] == path.as_str());
            field.map(|it| [it["from"].clone(), it["to"].clone()]).with_context(|| format!("{path}: {said}"))
        };
        ["memcached", "exporter"].into_iter().map(of).collect()
    }
}

/// A cache that names no image.
fn spec(replicas: i32, memory: i32) -> Value {
    json!({
        "replicas": replicas,
        "memcached": {"maxMemoryMB": memory},
        "monitoring": {"enabled": true},
    })
}

/// The template runs these images, and the same object says that it was made with them.
fn is_made_with(deployment: Option<&Deployment>, images: &DefaultImages) -> Result<()> {
    let deployment = deployment.context("there is no Deployment")?;
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let containers = pod.map(|pod| pod.containers.as_slice()).unwrap_or_default();
    let run: Vec<_> = containers.iter().filter_map(|container| container.image.as_deref()).collect();
    ensure!(run == [&*images.memcached, &*images.exporter], "the template has {run:?}");
    let record = deployment.annotations().get(DEFAULT_IMAGES).context("no images are on record")?;
    ensure!(DefaultImages::from_annotation(record).as_ref() == Some(images), "on record: {record}");
    Ok(())
}

/// The version of the Deployment once nothing changes any more.
async fn version_at_rest(space: &Space) -> Result<String> {
    await_ready(space, NAME).await?;
    state::at_rest(space, NAME).await?;
    let version = space.api::<Deployment>().get(NAME).await?.resource_version();
    version.context("an object has a version")
}

/// Waits until the cache has been looked at since the operator's start: it works for nobody else.
async fn await_looked_at(operator: &Operator) -> Result<()> {
    await_answer("the cache has been looked at", async || {
        let (_, page) = operator.get("/metrics").await?;
        let value = |metric: &str| page.lines().find_map(|it| it.strip_prefix(metric)?.parse::<u64>().ok());
        let passes = value("memcached_operator_reconcile_total{result=\"success\"} ");
        let waiting = value("memcached_operator_queue_depth ");
        ensure!(passes.is_some_and(|it| it > 0) && waiting == Some(0), "{passes:?}, waiting: {waiting:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn images_of_flags_and_variables_change_nothing_that_runs_and_the_next_edit_takes_them() -> Result<()> {
    in_space("images", async |space: &Space| {
        let _kubelet = Kubelet::start(space);
        let program = Program::of(space).await?;
        let (first, second) = (mirror("first"), mirror("second"));

        let operator = program.run(&first).await?;
        space.apply(&plain(NAME, &spec(1, 64))?).await?;
        // The state that the watch saw, not one that was read later: the record comes with the template.
        let made = space.wait::<Deployment>(NAME, "it is made", |it| it.is_some()).await?;
        is_made_with(made.as_ref(), &first)?;
        let before = version_at_rest(space).await?;
        ensure!(operator.terminate().await?.success(), "it ends in good order");

        let operator = program.run(&second).await?;
        await_looked_at(&operator).await?;
        ensure!(version_at_rest(space).await? == before, "other images alone wrote the Deployment");
        let said = program.plan(&second, &[]).await?;
        ensure!(said == (NOTHING.to_owned(), Some(0)), "{said:?}");

        space.apply(&plain(NAME, &spec(2, 64))?).await?;
        let replicas = |it: &Deployment| it.spec.as_ref().and_then(|spec| spec.replicas);
        let is_scaled = |it: Option<&Deployment>| it.and_then(replicas) == Some(2);
        let scaled = space.wait::<Deployment>(NAME, "it is scaled", is_scaled).await?;
        is_made_with(scaled.as_ref(), &first).context("what is no edit of the pods")?;
        version_at_rest(space).await?;
        let said = program.plan(&second, &[]).await?;
        ensure!(said == (NOTHING.to_owned(), Some(0)), "{said:?}");

        let file = program.folder.path().join("edited.json");
        fs::write(&file, serde_json::to_vec(&plain(NAME, &spec(2, 65))?)?)?;
        let planned = program.planned(&second, &file).await?;
        let wanted = [[&first.memcached, &second.memcached], [&first.exporter, &second.exporter]];
        ensure!(planned == wanted.map(|both| both.map(|image| json!(image))), "{planned:?}");
        space.apply(&plain(NAME, &spec(2, 65))?).await?;
        let is_edited = |it: Option<&Deployment>| is_made_with(it, &first).is_err();
        let edited = space.wait::<Deployment>(NAME, "its template is another", is_edited).await?;
        is_made_with(edited.as_ref(), &second)?;
        await_ready(space, NAME).await?;
        ensure!(operator.terminate().await?.success(), "it ends in good order");
        Ok(())
    })
    .await
}

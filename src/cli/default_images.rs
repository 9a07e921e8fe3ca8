//! The options that name the default images, for `run` and `plan`. Pure: checks the texts.

use crate::api::spec::is_image;
use crate::kernel::desired::DefaultImages;
use crate::kernel::desired::default_images::BUILT_IN;

/// Where pods come from whose resource names no image. A pod template keeps what it was rendered with.
#[derive(Clone, Debug, clap::Args)]
pub struct Images {
    /// The image of memcached for resources without `image`, by tag or digest; running pods keep theirs until an edit
    #[arg(
        long,
        value_name = "IMAGE",
        env = "MEMCACHED_OPERATOR_MEMCACHED_IMAGE",
        default_value = &*BUILT_IN.memcached,
        value_parser = image
    )]
    memcached_image: String,

    /// The exporter's image for resources without `monitoring.exporterImage`; running pods keep theirs until an edit
    #[arg(
        long,
        value_name = "IMAGE",
        env = "MEMCACHED_OPERATOR_EXPORTER_IMAGE",
        default_value = &*BUILT_IN.exporter,
        value_parser = image
    )]
    exporter_image: String,

    /// This program's own image: the exporter where memcached asks for a password, and the agent; running pods keep theirs
    #[arg(
        long,
        value_name = "IMAGE",
        env = "MEMCACHED_OPERATOR_OPERATOR_IMAGE",
        default_value = &*BUILT_IN.operator,
        value_parser = image
    )]
    operator_image: String,
}

impl From<Images> for DefaultImages {
    fn from(Images { memcached_image, exporter_image, operator_image }: Images) -> Self {
        Self {
            memcached: memcached_image.into(),
            exporter: exporter_image.into(),
            operator: operator_image.into(),
        }
    }
}

fn image(text: &str) -> Result<String, &'static str> {
    let image = text.trim();
    is_image(image)
        .then(|| image.to_owned())
        .ok_or("it must be a reference of the form [registry[:port]/]name[:tag][@digest]")
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        images: Images,
    }

    fn read(line: &str) -> DefaultImages {
        Cli::try_parse_from(line.split(' ')).unwrap().images.into()
    }

    #[test]
    fn each_option_and_each_variable_names_its_own_image() {
        assert_eq!(read("run"), BUILT_IN);
        assert_eq!(
            read(
                "run --memcached-image=a/server:1 --exporter-image=b/figures:2 --operator-image=c/program:3"
            ),
            DefaultImages {
                memcached: "a/server:1".into(),
                exporter: "b/figures:2".into(),
                operator: "c/program:3".into(),
            }
        );
        let command = Cli::command();
        let of =
            |name: &str| command.get_arguments().find(|it| it.get_long() == Some(name))?.get_env()?.to_str();
        assert_eq!(
            ["memcached-image", "exporter-image", "operator-image"].map(of),
            [
                Some("MEMCACHED_OPERATOR_MEMCACHED_IMAGE"),
                Some("MEMCACHED_OPERATOR_EXPORTER_IMAGE"),
                Some("MEMCACHED_OPERATOR_OPERATOR_IMAGE"),
            ]
        );
    }
}

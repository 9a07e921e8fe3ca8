//! What memcached makes of the content of Secrets, and the question by which the operator learns whether a pod has taken
//! it. Pure; the operator (`shell`) and the agent beside memcached (`agent`) use it, so that both judge alike.

pub mod certificates;
pub mod pair;
pub mod password_file;
pub mod plain_pem;
pub mod refusal;
pub mod rotation_check;

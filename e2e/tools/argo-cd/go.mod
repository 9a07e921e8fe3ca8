// The Lua interpreter of Argo CD 3.6, in the versions that Argo CD's own go.mod names, and our small program around it.
module memcached-operator/e2e/tools/argo-cd

go 1.26.0

require (
	github.com/yuin/gopher-lua v1.1.2
	layeh.com/gopher-json v0.0.0-20190114024228-97fed8db8427
)

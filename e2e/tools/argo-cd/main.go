// argo-cd answers what a health script of Argo CD makes of an object, by the interpreter and the libraries that Argo CD
// gives a script (util/lua of Argo CD 3.6, which is too large a module to build here).
//
// It takes JSON on stdin, one {"script": "...", "object": {...}} a line, and gives one line of JSON for each on stdout:
// {"status":"Healthy","message":"..."}, or {"error":"..."} for a script that fails or answers with something else.
// It ends when stdin ends. Its only caller is e2e/src/testing/argo_cd.rs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	lua "github.com/yuin/gopher-lua"
	luajson "layeh.com/gopher-json"
)

type question struct {
	Script string          `json:"script"`
	Object json.RawMessage `json:"object"`
}

type answer struct {
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"`
}

// What Argo CD opens for a script; it has no print, no files, no strings.
var libraries = map[string]lua.LGFunction{
	lua.LoadLibName: lua.OpenPackage,
	lua.BaseLibName: lua.OpenBase,
	lua.TabLibName:  lua.OpenTable,
}

// The words that Argo CD takes; any other makes the health of the object Unknown.
var statuses = map[string]bool{
	"Unknown": true, "Progressing": true, "Suspended": true, "Healthy": true, "Degraded": true, "Missing": true,
}

func health(asked question) (answer, error) {
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range libraries {
		call := lua.P{Fn: l.NewFunction(open), NRet: 0, Protect: true}
		if err := l.CallByParam(call, lua.LString(name)); err != nil {
			return answer{}, err
		}
	}
	deadline, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	l.SetContext(deadline)
	object, err := luajson.Decode(l, asked.Object)
	if err != nil {
		return answer{}, err
	}
	l.SetGlobal("obj", object)
	if err := l.DoString(asked.Script); err != nil {
		return answer{}, err
	}
	returned := l.Get(-1)
	if returned.Type() != lua.LTTable {
		return answer{}, fmt.Errorf("the script returns a %s and no table", returned.Type())
	}
	encoded, err := luajson.Encode(returned)
	if err != nil {
		return answer{}, err
	}
	var given answer
	if err := json.Unmarshal(encoded, &given); err != nil {
		return answer{}, err
	}
	if !statuses[given.Status] {
		return answer{}, fmt.Errorf("%q is no health of Argo CD", given.Status)
	}
	return given, nil
}

func main() {
	in := json.NewDecoder(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for {
		var asked question
		err := in.Decode(&asked)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			// The rest of a broken stream cannot be split into questions again.
			_ = out.Encode(answer{Error: err.Error()})
			os.Exit(1)
		}
		given, err := health(asked)
		if err != nil {
			given = answer{Error: err.Error()}
		}
		if err := out.Encode(given); err != nil {
			os.Exit(1)
		}
	}
}

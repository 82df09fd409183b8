.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := /bin/bash
export PATH := $(PATH):/usr/sbin:/sbin

PKG       ?= ./...
FUZZTIME  ?= 10s
RACING    = $(if $(RACE),-race -gcflags=modernc.org/...=-race=false) # not in SQLite, which is C translated to Go, and whose tests take twice as long with it
GOTEST    = go test $(RACING) $(VET) -timeout 15m $(ARGS)
AT_A_TIME = $(if $(RACE),,-p $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2)))) # packages: they wait for servers a third of their time
BUILD     = CGO_ENABLED=0 go build -trimpath
MODULES   = bench contract deploy/gateways deploy/kubernetes tools # separate, so that the go.mod of the project needs none of their dependencies
QUIET     = $(if $(ARGS),,@)
GROUP     = $(if $(ARGS),,$(CURDIR)/scripts/group '$(1)')
LONGEST   = ./internal/rehearseroom ./orders/shop ./internal/httpapi ./cmd/api ./waitingroom ./internal/livepage ./semaphore # begun first: as the last ones they would run alone for minutes
LINT      = go tool -modfile=$(CURDIR)/tools/go.mod golangci-lint
# Lint reads what the tests compile, too.
LINT_RACE = GOFLAGS="$$GOFLAGS $(RACING)" "$$(go tool -n -modfile=$(CURDIR)/tools/go.mod golangci-lint)"
RELEASE   = GOTOOLCHAIN=$(shell sed -n 's/^FROM golang:\([0-9.]*\)-.*/go\1/p' Dockerfile) go run -C tools ./release
COMPOSE   = $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ First steps
.PHONY: setup
setup: ## install what the tests run (root, or SETUP=1 for sudo)
	@SETUP=$(SETUP) scripts/setup

.PHONY: demo
demo: ## run a sale on this machine, with nothing installed (EXIT=1: leave after the verdict)
	go build -o bin/ ./cmd/tidegate # go run would call Ctrl-C an error
	bin/tidegate demo $(if $(EXIT),--exit)

.PHONY: test
ifeq ($(PKG),./...)
test: export PROGRAMS = $(CURDIR)/bin/tested
endif
test: setup ## all tests, on real servers (RACE=1, PKG=./orders/..., ARGS='-run Name -v', SLOW=1: the long proofs in full)
ifeq ($(PKG),./...)
	$(QUIET)$(call GROUP,compiled) go list -export -test -deps -f '{{""}}' $(RACING) ./... # first: a crowd must not wait for a compiler
	$(QUIET)$(call GROUP,programs) go build -o $(PROGRAMS)/ ./cmd/api ./cmd/worker # once, for all tests that run them
	$(QUIET)$(call GROUP,programs with failpoints) go build -tags failpoints -o $(PROGRAMS)/failpoints/ ./cmd/api ./cmd/worker
	$(QUIET)$(call GROUP,tests) $(GOTEST) $(AT_A_TIME) $(LONGEST) $$(go list ./... | grep -v -e /internal/chaos -e /cmd/tidegate)
	$(QUIET)$(call GROUP,the programs and chaos) $(GOTEST) -p 1 ./cmd/tidegate ./internal/chaos # alone: a crowd that waits for seconds must not wait for other tests
	$(QUIET)$(call GROUP,failpoints) $(GOTEST) -tags failpoints ./orders/internal/failpoint
	$(QUIET)$(foreach module,$(MODULES),(cd $(module) && $(call GROUP,$(module)) $(if $(filter bench,$(module)),$(GOTEST),go test $(VET) $(ARGS)) ./...) &&) true
else
	$(GOTEST) $(PKG)
endif

.PHONY: check
check: RACE = 1
check: VET = -vet=off # lint vets
check: export GORACE = atexit_sleep_ms=100 # not a second at the end of each test binary and of each process that a test starts
check: BUILD = go build # what lint and tests compile too; lint checks that the programs need no C
check: setup lint compose build test ## what CI runs: lint, compose file, build, tests with -race

##@ Checks
.PHONY: lint
lint: ## static checks
	go mod tidy -diff
	CGO_ENABLED=0 go list -deps -f '{{""}}' ./cmd/...
	GOOS=wasip1 GOARCH=wasm go build ./orders ./orders/shop ./orders/memory ./waitingroom ./waitingroom/memory ./semaphore ./admission ./login ./internal/judge # no part of them needs a process of its own
	! grep -rnE --include='*.js' --include='*.html' --exclude='*.min.js' --exclude-dir=uplot '(inner|outer|insertAdjacent)HTML|HTMLUnsafe|srcdoc|document\.write|createContextualFragment|parseFromString|\beval\(|new Function' . # shops with require-trusted-types-for 'script' could not embed it
	! grep -rnwE --include='*.go' --include='*.lua' --exclude='*_test.go' --exclude-dir=testdata '[Tt]old|[Hh]eard|[Uu]nheard|[Nn]obody|[Ss]ays|[Ss]aid|[Kk]nows|Because|[Pp]atience|[Cc]alm|[Bb]ulletin|[Pp]atrol|[Mm]ark|Deafen|sayCome|sayAgain' . | grep -v '"postgres", "nobody"' # riddles; plain words are states, describes, has, receives, no process, timeout. Unix has a user nobody
	$(LINT) config verify
	$(LINT_RACE) run --build-tags docker,upgrade ./...
	$(LINT_RACE) run --build-tags failpoints ./orders/internal/failpoint
	$(foreach module,$(MODULES),(cd $(module) && go mod tidy -diff && $(if $(filter bench,$(module)),$(LINT_RACE),$(LINT)) run ./...) &&) true

.PHONY: fmt
fmt: ## format as lint wants it
	$(LINT) fmt ./...
	$(foreach module,$(MODULES),(cd $(module) && $(LINT) fmt ./...) &&) true

.PHONY: compose
compose:
	$(COMPOSE) config -q
	$(COMPOSE) --profile observe config -q
	$(COMPOSE) --env-file .env -f deploy/hosts/compose.yaml config -q
	$(COMPOSE) --env-file .env -f deploy/hosts/compose.yaml -f deploy/hosts/sentinel.yaml config -q

.PHONY: build
build: ## all programs, into bin/
	$(BUILD) -o bin/ ./cmd/...

##@ Release
.PHONY: release
release: ## what a release consists of, into dist/: programs, image, SBOM, checksums (PLATFORMS=linux/amd64,darwin/arm64)
	$(RELEASE) $(if $(PLATFORMS),-platforms $(PLATFORMS))

.PHONY: release-check
release-check: release ## the same in another folder with an empty build cache, and compare
	scripts/release-check $(if $(PLATFORMS),PLATFORMS=$(PLATFORMS))

##@ Measure and break
.PHONY: bench
bench: setup ## compare with peers and a hand-assembled stack, in 15 minutes (SUITES='-only orders'); PKG=./admission: its Go benchmarks
ifeq ($(PKG),./...)
	cd bench && go run . $(SUITES)
else
	go test -run '^$$' -bench . -benchmem $(ARGS) $(PKG)
endif

.PHONY: fuzz
fuzz: ## every fuzz test for FUZZTIME (10s)
	@grep -rHoE --include='*_test.go' '^func Fuzz\w+' . | while IFS=: read -r file func; do \
		set -x; go test -run '^$$' -fuzz "^$${func#func }$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" || exit 1; \
		{ set +x; } 2>/dev/null; done

.PHONY: mutants
mutants: PURE ?= ./internal/seal ./internal/input ./internal/netaddr ./internal/strictjson ./internal/httpapi/response ./internal/names ./internal/bounded ./internal/keyhash ./admission/internal/algorithm
mutants: ## change the packages without I/O in one place at a time, and list the changes that no test notices (PURE=./internal/seal)
	$(foreach package,$(PURE),go run github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0 unleash --workers 1 --timeout-coefficient 20 --threshold-efficacy 80 $(package) &&) true

.PHONY: client
client: ## make a client from the OpenAPI documents, and call every operation with it (make test does, too)
	cd contract && go test -count 1 -v ./...

.PHONY: cross
cross: ## compile the programs for Windows and macOS
	for os in windows darwin; do CGO_ENABLED=0 GOOS=$$os GOARCH=amd64 go list -export -f '{{""}}' ./cmd/... || exit 1; done

.PHONY: drift
drift: OPS ?= 100000
drift: setup ## random operations on semaphores, with crashes: nothing may be left over (OPS=100000)
	$(GOTEST) ./semaphore -run '^TestNothingDrifts$$' -v -ops $(OPS)

.PHONY: chaos
chaos: ROUNDS ?= 10
chaos: AT_ONCE ?= $(if $(HOSTS),1,3)
chaos: RATE ?= $(if $(HOSTS),60,200)
chaos: setup ## break a running sale at random and judge it (ROUNDS=10 SEED=… AT_ONCE=3 RATE=200 VISITORS=60 FAULTS=flushall,kill-api ONLY=1,3 DOUBLE=1 SHRINK=1 REPORT=file; HOSTS=1: on several hosts, in containers, MEASURE=split-brain DURABILITY=replicated SENTINEL=1)
	go test ./internal/chaos -timeout 0 -count 1 -run '^$(if $(HOSTS),TestHosts,TestChaos)$$' -v -rounds $(ROUNDS) -parallel $(AT_ONCE) -rate $(RATE) $(if $(VISITORS),-visitors $(VISITORS)) $(if $(SEED),-seed $(SEED)) \
		$(if $(FAULTS),-faults $(FAULTS)) $(if $(ONLY),-only $(ONLY)) $(if $(DOUBLE),-double) $(if $(SHRINK),-shrink) $(if $(REPORT),-report $(abspath $(REPORT))) \
		$(if $(HOSTS),-hosts $(if $(MEASURE),-measure $(MEASURE)) $(if $(DURABILITY),-durability $(DURABILITY)) $(if $(SENTINEL),-sentinel)) $(ARGS)

.PHONY: simulate
simulate: SEEDS ?= $(or $(SEED),1-1000)
simulate: ## run installations in virtual time, whose faults a number decides (SEEDS=1-10000 ALL=1 JSON=file SIZE=30 COVER=folder; SEED=4711 TRACE=1 SHAPE='…': one again)
	go run ./internal/simulation/simulate -seeds $(SEEDS) $(if $(TRACE),-trace) $(if $(ALL),-all) $(if $(SHAPE),-shape '$(SHAPE)') \
		$(if $(JSON),-json $(abspath $(JSON))) $(if $(COVER),-cover $(abspath $(COVER))) $(if $(SIZE),-size $(SIZE))

.PHONY: defects
defects: SEEDS ?= 1-2000
defects: ## build the simulation with each deliberate mistake of internal/simulation/defects, which worlds have to find (ONLY=name SEEDS=1-2000)
	go run ./internal/simulation/simulate -defects internal/simulation/defects -seeds $(SEEDS) $(if $(ONLY),-only $(ONLY))

.PHONY: upgrade
upgrade: OLD ?= 63850f3d
upgrade: setup ## replace the programs of an older commit by those of this tree in the middle of a sale, and judge it (OLD=v0.1.0 REPORT=file)
	go test -tags upgrade ./internal/upgrade -timeout 0 -count 1 -run '^TestUpgrade$$' -v -old $(OLD) $(if $(REPORT),-report $(abspath $(REPORT))) $(ARGS)

.PHONY: matrix
matrix: setup ## the tests that talk to servers, on several versions of them (SERVERS=folder REPORT=file PKG=./orders/...)
	scripts/matrix $(if $(filter-out ./...,$(PKG)),$(PKG))

.PHONY: compose-test
compose-test: setup ## docker-compose.yml in this machine's Docker engine: README's calls, kills, restarts (root)
	go test -tags docker ./deploy -run '^TestCompose$$' -count 1 -timeout 30m -v

.PHONY: model
model: ## check the model of the recovery with spin, every run (FAULTS=3)
	@SETUP=$(SETUP) scripts/setup spin
	@FAULTS=$(FAULTS) scripts/model

.PHONY: schema
schema: setup ## describe what the migrations make, in migrations/schema/, after a migration was added
	go test ./migrations -run '^TestSchemaIsDescribed$$' -count 1 -update

##@ Operate
.PHONY: migrate
migrate: ## bring the schema of DATABASE_URL up to date
	go run ./cmd/tidegate migrate

.PHONY: up
up: export VERSION ?= $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null)
up: export COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
up: export DATE ?= $(shell TZ=UTC0 git show --no-patch --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd HEAD 2>/dev/null)
up: ## start everything in containers, on 127.0.0.1:8080 and :8081 (COMPOSE_PROFILES=observe: and Prometheus, Grafana)
	$(COMPOSE) up --build -d

.PHONY: down
down: ## stop the containers (ARGS=-v: and drop their data)
	$(COMPOSE) --profile observe down $(ARGS)

.PHONY: clean
clean: ## remove what was built here; data stays
	rm -rf bin artifacts dist

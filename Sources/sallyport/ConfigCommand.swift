// sallyport config: the configuration in force, each key with its place or "default". Tests: test_config_command.py.

import Policy
import Transport

nonisolated func configCommand(_ options: Arguments) throws -> Int32 {
  let path = ConfigurationFile.path(try options.configurationOperand())
  let read = PolicyLoader.effective(path: path, files: SystemFiles(), directory: Files.workingDirectory ?? "")
  guard let configuration = read.configuration else {
    for diagnostic in read.diagnostics { Output.complain("\(diagnostic)\n") }
    return 1
  }
  Output.answer(options.flags.contains("json") ? configuration.json : configuration.description)
  return 0
}

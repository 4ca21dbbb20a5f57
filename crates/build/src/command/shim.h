#line 1 "gates.yaml: shim"
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <cuda_runtime.h>
namespace gk_shim {
template <class Result, class... Types>
constexpr std::size_t arity(Result (*)(Types...)) { return sizeof...(Types); }
template <class Function> struct arguments;
template <class Result, class... Types>
struct arguments<Result(Types...)> { using tuple = std::tuple<std::remove_cv_t<Types>...>; };
template <class Result, class... Types>
struct arguments<Result(Types...) noexcept> { using tuple = std::tuple<std::remove_cv_t<Types>...>; };
template <std::size_t Index, class Function>
using argument = std::tuple_element_t<Index, typename arguments<Function>::tuple>;
template <class Type> constexpr bool is_pointer() {
    return std::is_pointer_v<Type> && !std::is_same_v<Type, cudaStream_t>;
}
template <class Type, std::size_t Size> constexpr bool is_integer() {
    return (std::is_integral_v<Type> || std::is_enum_v<Type>) && !std::is_same_v<Type, bool> && sizeof(Type) == Size;
}
template <class Type, bool = std::is_enum_v<Type>> struct integer { using type = Type; };
template <class Type> struct integer<Type, true> { using type = std::underlying_type_t<Type>; };
template <class Type> constexpr bool is_signed() { return std::is_signed_v<typename integer<Type>::type>; }
template <class Result, class... Types, std::size_t... Index>
int call(Result (*function)(Types...), void** args, std::index_sequence<Index...>) {
    static_assert(std::is_void_v<Result> || std::is_integral_v<Result> || std::is_enum_v<Result>,
                  "a launcher returns nothing, an int or a cudaError_t");
    if constexpr (std::is_void_v<Result>) {
        function(*static_cast<std::remove_cv_t<Types>*>(args[Index])...);
        return 0;
    } else {
        return static_cast<int>(function(*static_cast<std::remove_cv_t<Types>*>(args[Index])...));
    }
}
template <class Result, class... Types>
int call(Result (*function)(Types...), void** args) {
    return call(function, args, std::index_sequence_for<Types...>{});
}
}
